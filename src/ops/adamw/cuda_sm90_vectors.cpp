// Which problems the Hopper kernels of adamw take. Compiled with and without CUDA.
#include "ops/adamw/problem.hpp"

namespace octet {
namespace {

std::string refuse(const AdamWProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  return problem.count >= std::int64_t{1} << 39 ? "more than 2^39 elements" : "";
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

constinit const AdamWImplementation kAdamWCudaSm90Vectors{
    "cuda_sm90_vectors", refuse, [](const AdamWProblem& problem, const Machine&) {
      return planned<AdamWArgs>(problem, has_adamw_vectors(problem) ? "eights" : "elements", 0,
                                launch_sm90_adamw);
    }};

}  // namespace octet
