// The checked problem of gemm, and what its implementations share.
#pragma once

#include "core/call.hpp"
#include "dispatch/implementation.hpp"
#include "ops/gemm/cpu_product.hpp"

#include <octet/ops/gemm.hpp>

#include <span>

namespace octet {

using GemmImplementation = Implementation<GemmProblem, GemmArgs>;

extern const GemmImplementation kGemmCudaSm90Wgmma;
extern const GemmImplementation kGemmCublasLt;
extern const GemmImplementation kGemmCpuSimd;
extern const GemmImplementation kGemmCpuReference;

// In the order they are tried.
std::span<const GemmImplementation> gemm_implementations();

void check(const GemmProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const GemmProblem& problem, const GemmArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace);

// True if both operands have a scale per row: fma(slice * sa, sb, acc).
// Otherwise fma(slice, sa * sb, acc).
inline bool scales_one_by_one(const GemmProblem& problem) {
  return problem.a.block.rows == 1 && problem.b.block.rows == 1;
}

// "fp8" or "other": the key of OCTET_GEMM_BACKEND.
template <class Problem>
std::string_view precision(const Problem& problem) {
  return is_fp8(problem.a.dtype) ? "fp8" : "other";
}

// "e4m3:1x128", "bf16:mn"
std::string describe_operand(const GemmOperand& operand);
// The operands of a product, each by itself and together, for every operator that has products.
void check_operands(std::string_view op, const GemmOperand& a, const GemmOperand& b);
// Dtype of d, and whether it can be added to.
void check_output(std::string_view op, Dtype out_dtype, bool accumulate);
// Checks an operand and lists it: [rows, k], FP8 or plain.
void read_operand(Call& call, const char* argument, const GemmOperand& operand,
                  const QuantizedView& view, std::int64_t rows, std::int64_t k,
                  std::string_view spelling);
// Refuses scales that are given with a plain operand.
void check_no_scales(Argument argument, const GemmOperand& operand, const QuantizedView& view);

// The product of checked arguments, on the CPU.
inline CpuProduct cpu_product(const GemmProblem& problem, const GemmArgs& args) {
  return {problem.m,        problem.n, problem.k, lines_of(args.a),
          lines_of(args.b), args.d,    args.bias, problem.accumulate};
}

inline ProductBounds product_bounds(const GemmProblem& problem) {
  return {.m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .slice = is_mx(problem.a.block) ? kMxBlock : kBlock};
}

// The workspace of cuBLASLt: NVIDIA's recommendation for Hopper.
inline constexpr std::size_t kCublasLtWorkspaceBytes = std::size_t{32} << 20;

// The product through cuBLASLt. Arguments are checked already. Throws Error(unsupported) if it
// cannot be loaded, cannot read a layout or has no algorithm. The first run on a device loads the
// library (0.3 s); the first run of a problem calls its heuristic; later runs only launch.
void launch_cublaslt(const GemmProblem& problem, const GemmArgs& args, const RunContext& context);

}  // namespace octet
