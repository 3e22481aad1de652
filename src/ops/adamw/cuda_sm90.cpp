// Which problems the Hopper kernels of adamw take. Compiled with and without CUDA.
#include "ops/adamw/problem.hpp"

#include "ops/fp8_output/checks.hpp"

namespace octet {
namespace {

std::string refuse_vectors(const AdamWProblem& problem, const Machine& machine) {
  if (problem.fp8) return kAdamWNoFp8;
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  return problem.count >= std::int64_t{1} << 39 ? "more than 2^39 elements" : "";
}

std::string refuse_tile(const AdamWProblem& problem, const Machine& machine) {
  std::string refusal = refuse_fp8_on_hopper(problem, problem.rows, problem.cols, machine);
  if (!refusal.empty()) return refusal;
  return has_adamw_tile(problem) ? ""
                                 : "takes bf16 throughout, or bf16 with moments and a master copy "
                                   "in f32: unfused runs the rest";
}

}  // namespace

bool has_adamw_vectors(const AdamWProblem& problem) {
  const bool same = problem.grad_dtype == problem.dtype;
  const bool f32_moments = problem.moments_dtype == Dtype::f32;
  switch (problem.dtype) {
    case Dtype::bf16:
      return same || (problem.grad_dtype == Dtype::f32 && f32_moments && problem.master);
    case Dtype::f16: return same && f32_moments;
    default: return same && f32_moments && !problem.master;
  }
}

bool has_adamw_tile(const AdamWProblem& problem) {
  return problem.dtype == Dtype::bf16 && problem.grad_dtype == Dtype::bf16 &&
         problem.moments_dtype == (problem.master ? Dtype::f32 : Dtype::bf16);
}

constinit const AdamWImplementation kAdamWCudaSm90Vectors{
    "cuda_sm90_vectors", refuse_vectors, [](const AdamWProblem& problem, const Machine&) {
      return planned<AdamWArgs>(problem, has_adamw_vectors(problem) ? "eights" : "elements", 0,
                                launch_sm90_adamw);
    }};
constinit const AdamWImplementation kAdamWCudaSm90Tile{
    "cuda_sm90_tile", refuse_tile, [](const AdamWProblem& problem, const Machine&) {
      return planned<AdamWArgs>(problem, "128x128", 0, launch_sm90_adamw_tile);
    }};

}  // namespace octet
