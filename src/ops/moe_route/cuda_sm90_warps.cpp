// Which problems the Hopper kernels of moe_route take. Compiled with and without CUDA.
#include "ops/moe_route/problem.hpp"

namespace octet {
namespace {

std::string refuse(const MoeRouteProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  return problem.tokens >= std::int64_t{1} << 32 ? "2^32 tokens or more" : "";
}

template <class Args>
Planned<Args> plan(const MoeRouteProblem& problem, const Machine&) {
  return planned<Args>(problem, "token per warp", 0, launch_sm90_moe_route);
}

}  // namespace

constinit const MoeRouteForwardImplementation kMoeRouteForwardCudaSm90Warps{
    "cuda_sm90_warps", refuse, plan<MoeRouteForwardArgs>};
constinit const MoeRouteBackwardImplementation kMoeRouteBackwardCudaSm90Warps{
    "cuda_sm90_warps", refuse, plan<MoeRouteBackwardArgs>};

}  // namespace octet
