// Shared by all checks of src/check/ops: test data, quantised or not, calls of an operator, and the
// gates that apply to all its outputs.
#pragma once

#include "check/judge/judge.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

#include <optional>
#include <string>

namespace octet {

JudgeOptions judge_options(const DataOptions& options, Device device);

// A random matrix; `stream` tells the matrices of one seed apart.
Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options, Device device);

// Weights [rows, cols]: random, scaled by a power of two near 1 / sqrt(cols), so that products with
// them do not grow with the size of the layer. Made on the host, so that every device has the same
// numbers.
Tensor random_weights(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                      const DataOptions& options, Device device);

// q, k and v of every token side by side, as rope and rms_norm_rope read them.
template <class Problem>
Tensor random_qkv(const Problem& problem, const DataOptions& options) {
  const std::int64_t heads = problem.q_heads + 2 * problem.k_heads;
  return random_matrix(problem.dtype, problem.batch * problem.seq, heads * problem.head_dim, 0,
                       options, problem.device);
}

enum class Transpose { no, yes };  // yes: the transposed matrix is quantised

// The quantised operand of a product that is judged by its dequantised operands. On the CPU it is
// the oracle's. On CUDA, where a tensor is too large for the oracle, it is what the device's
// quantiser wrote, and the oracle judges 128x128 tiles of it.
class QuantizedOperand {
 public:
  QuantizedOperand() = default;
  // `input`: columns contiguous. `tensor` names it in the report, to which CUDA adds gate Q.
  QuantizedOperand(const std::string& tensor, const TensorView& input, Transpose transpose,
                   const OracleRules& rules, const DataOptions& options, GateReport& report);

  const QuantizedView& view() const { return view_; }

 private:
  void write_on_cuda(const TensorView& input, Transpose transpose, const OracleRules& rules,
                     const DataOptions& options);

  OracleTensor oracle_;
  QuantizedTensor written_;
  QuantizedView view_;
};

// Copies the values and scales of a matrix to one of another layout, on the same device.
void copy_elements(const QuantizedView& from, const QuantizedView& to);
// A copy of a quantised tensor, of any layout, in our own layout on its device.
QuantizedTensor in_our_layout(const QuantizedView& view);

void add(GateReport& report, std::vector<GateResult> results);

// G5 and G6 of what two calls wrote.
template <class Guarded>
void judge_memory(const std::string& tensor, const Guarded& first, const Guarded& second,
                  GateReport& report) {
  report.results.push_back(judge_g5(tensor, first.view(), second.view()));
  report.results.push_back(judge_g6(tensor, first.inspect(), second.inspect()));
}

// The view of an output that a problem may not have.
inline TensorView view_of(const std::optional<GuardedMatrix>& output) {
  return output ? output->view() : TensorView();
}
inline QuantizedView view_of(const std::optional<GuardedQuantized>& output) {
  return output ? output->view() : QuantizedView();
}

// Runs a plan with a workspace of its own and waits until it is done.
template <class Plan, class Args>
void run_once(const Plan& plan, const Args& args, Device device) {
  const Buffer workspace(plan.workspace_bytes, device);
  run(plan, args, {workspace.data(), workspace.bytes()});
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

// Calls judge(); if it runs out of memory, the error names the check.
template <class Judge>
GateReport within_memory(const char* check, const std::string& problem, const Judge& judge) {
  try {
    return judge();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    fail(ErrorCode::out_of_memory, "check ", check, ": not enough memory for the gates of ",
         problem,
         ", which keep the inputs, two sets of outputs and the quantised operands: ", error.what());
  }
}

}  // namespace octet
