#include "ops/gated_mlp/launches.hpp"

#include "core/checks.hpp"

#include <algorithm>

namespace octet {
namespace {

std::int64_t plain_bytes(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return rows * cols * size_bytes(dtype);
}

// Values and scales, without the padding, which is not moved.
std::int64_t quantized_bytes(std::int64_t rows, std::int64_t cols, BlockShape block) {
  return rows * cols + blocks_along(rows, block.rows) * blocks_along(cols, block.cols) *
                           size_bytes(scale_dtype(block));
}

std::int64_t copies_bytes(std::int64_t rows, std::int64_t cols,
                          const std::optional<BlockShape>& block,
                          const std::optional<BlockShape>& transposed_block) {
  return (block ? quantized_bytes(rows, cols, *block) : 0) +
         (transposed_block ? quantized_bytes(cols, rows, *transposed_block) : 0);
}

std::int64_t operand_bytes(const GemmOperand& operand, std::int64_t rows, std::int64_t k) {
  return is_fp8(operand.dtype) ? quantized_bytes(rows, k, operand.block)
                               : plain_bytes(rows, k, operand.dtype);
}

// An implementation of this name runs the plain operator and a cast.
constexpr std::string_view kUnfused = "unfused";

}  // namespace

void Launches::count(std::int64_t launches, std::int64_t bytes, std::size_t scratch_bytes) {
  cost_.launches += launches;
  cost_.bytes += bytes;
  scratch_bytes_ = std::max(scratch_bytes_, scratch_bytes);
}

QuantizePlan Launches::quantize(const QuantizeProblem& problem) {
  QuantizePlan plan = plan_quantize(problem, {options_.quantize_backend, options_.threads});
  count(1,
        plain_bytes(problem.rows, problem.cols, problem.input_dtype) +
            copies_bytes(problem.rows, problem.cols, problem.block, problem.transposed_block),
        plan.workspace_bytes);
  quantize_ = plan.implementation;
  return plan;
}

GemmPlan Launches::multiply(const GemmProblem& problem) {
  GemmPlan plan = plan_gemm(problem, {options_.gemm_backend, options_.threads});
  count(1,
        operand_bytes(problem.a, problem.m, problem.k) +
            operand_bytes(problem.b, problem.n, problem.k) +
            plain_bytes(problem.m, problem.n, problem.out_dtype) * (problem.accumulate ? 2 : 1),
        plan.workspace_bytes);
  gemm_ = plan.implementation;
  return plan;
}

// Counts an activation that reads `read` bytes and writes `cols` columns.
void Launches::count_activation(const GatedActivationProblem& problem,
                                const std::string& implementation, std::size_t workspace_bytes,
                                std::int64_t read, std::int64_t cols) {
  activation_ = implementation;
  const std::int64_t plain = plain_bytes(problem.rows, cols, problem.dtype);
  if (!problem.fp8) return count(1, read + plain, workspace_bytes);
  const std::int64_t copies =
      copies_bytes(problem.rows, cols, problem.fp8->block, problem.fp8->transposed_block);
  if (implementation == kUnfused) return count(2, read + 2 * plain + copies, workspace_bytes);
  count(1, read + copies, workspace_bytes);
}

GatedActivationForwardPlan Launches::activate(const GatedActivationProblem& problem) {
  GatedActivationForwardPlan plan = plan_gated_activation_forward(problem, {"", options_.threads});
  count_activation(problem, plan.implementation, plan.workspace_bytes,
                   plain_bytes(problem.rows, 2 * problem.cols, problem.dtype), problem.cols);
  return plan;
}

GatedActivationBackwardPlan Launches::activate_backward(const GatedActivationProblem& problem) {
  GatedActivationBackwardPlan plan =
      plan_gated_activation_backward(problem, {"", options_.threads});
  count_activation(problem, plan.implementation, plan.workspace_bytes,
                   plain_bytes(problem.rows, 3 * problem.cols, problem.dtype), 2 * problem.cols);
  return plan;
}

std::string Launches::implementations() const {
  std::string result;
  if (!quantize_.empty()) result += "quantize=" + quantize_ + " ";
  return result + "activation=" + activation_ + " gemm=" + gemm_;
}

}  // namespace octet
