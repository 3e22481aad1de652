// Which problems cuBLASLt takes. Compiled with and without CUDA. The rules on FP8 shapes are those
// of its block-scaled kernels: 16-byte rows of the operands, 8 rows and columns of the result. It has
// f32 products in f32, without TF32.
#include "ops/gemm/problem.hpp"

namespace octet {
namespace {

std::string refuse_bias_dtype(const GemmProblem& problem) {
  return text("the bias must have the dtype of the output, ", name(problem.out_dtype), ", not ",
              name(*problem.bias_dtype));
}

std::string refuse_multiple(const char* extent, std::int64_t given, std::int64_t wanted) {
  if (given % wanted == 0) return "";
  return text(extent, " must be a multiple of ", wanted, " for FP8, got ", given);
}

std::string refuse_blocks(const GemmProblem& problem) {
  if (problem.bias_dtype) {
    return "a bias is added to FP8 products with one scale per tensor, not to those with blocks";
  }
  return problem.a.block == kBlock1x128 ? "" : "blocks of a must be 1x128";
}

// The library documents bf16 results alone for scales of rows, and a bias of the dtype of a 16-bit
// result for scales of tensors.
std::string refuse_whole_rows(const GemmProblem& problem) {
  if (!(problem.a.block == problem.b.block)) {
    return text("a and b must both have a scale per row or both one per tensor, got ",
                name(problem.a.block), " and ", name(problem.b.block));
  }
  if (problem.a.block == kEachRow) {
    if (problem.out_dtype != Dtype::bf16) {
      return text("scales of rows give bf16, not ", name(problem.out_dtype));
    }
    return problem.bias_dtype ? "a bias is added to FP8 products with one scale per tensor, not to "
                                "those with scales of rows"
                              : "";
  }
  if (!problem.bias_dtype) return "";
  if (problem.out_dtype == Dtype::f32) return "a bias is added to bf16 and f16 results, not to f32";
  return problem.bias_dtype == problem.out_dtype ? "" : refuse_bias_dtype(problem);
}

std::string refuse_fp8(const GemmProblem& problem) {
  std::string refusal =
      is_whole_row(problem.a.block) ? refuse_whole_rows(problem) : refuse_blocks(problem);
  if (!refusal.empty()) return refusal;
  if (problem.a.dtype == Dtype::e5m2 && problem.b.dtype == Dtype::e5m2) {
    return "a and b are both e5m2; at least one must be e4m3";
  }
  refusal = refuse_multiple("M", problem.m, 8);
  if (refusal.empty()) refusal = refuse_multiple("N", problem.n, 8);
  if (refusal.empty()) refusal = refuse_multiple("K", problem.k, 16);
  return refusal;
}

std::string refuse_unscaled(const GemmProblem& problem) {
  const Dtype operands = problem.a.dtype;
  if (problem.out_dtype != operands && problem.out_dtype != Dtype::f32) {
    return text(name(operands), " operands give ",
                operands == Dtype::f32 ? "" : text(name(operands), " or "), "f32, not ",
                name(problem.out_dtype));
  }
  if (problem.bias_dtype.value_or(problem.out_dtype) != problem.out_dtype) {
    return refuse_bias_dtype(problem);
  }
  return "";
}

std::string refuse(const GemmProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (is_mx(problem.a.block)) {
    return "mx blocks have no tensor cores on Hopper; quantize folds them into 1x128 and 128x128 "
           "(fold_mx)";
  }
  if (!machine.cublaslt) return "libcublasLt was not found (libcublasLt.so.13 or .12)";
  if (problem.accumulate && problem.out_dtype != Dtype::f32) {
    return text("accumulating into ", name(problem.out_dtype),
                " rounds the product before the sum; f32 is accumulated faithfully");
  }
  constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 1;
  if (problem.m > kLargest || problem.n > kLargest || problem.k > kLargest) {
    return "M, N and K must be below 2^31";
  }
  return is_fp8(problem.a.dtype) ? refuse_fp8(problem) : refuse_unscaled(problem);
}

}  // namespace

constinit const GemmImplementation kGemmCublasLt{
    "cublaslt", refuse, [](const GemmProblem& problem, const Machine&) {
      return planned<GemmArgs>(problem, "heuristic accumulate=f32 split=1", kCublasLtWorkspaceBytes,
                               launch_cublaslt);
    }};

}  // namespace octet
