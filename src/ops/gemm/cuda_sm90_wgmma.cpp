// What the Hopper product takes, known with and without CUDA in the build.
#include "ops/gemm/cuda_sm90_wgmma.hpp"

#include "ops/gemm/cuda_sm90_choose.hpp"

namespace octet {
namespace {

std::string refuse(const GemmProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!is_fp8(problem.a.dtype)) return text("operands are ", name(problem.a.dtype), ", not FP8");
  if (!(problem.a.block == kBlock1x128)) return "blocks of a must be 1x128";
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  if (problem.m > kLargest || problem.n > kLargest || problem.k > kLargest) {
    return "M, N and K must be at most 2^30";
  }
  return "";
}

std::string configuration(const GemmProblem& problem, const Machine& machine) {
  return name(choose_sm90_gemm(problem, machine.multiprocessors));
}

}  // namespace

constinit const GemmImplementation kGemmCudaSm90Wgmma{
    "cuda_sm90_wgmma", refuse, configuration,
    [](const GemmProblem&, const Machine&) { return std::size_t{0}; }, launch_sm90_wgmma};

}  // namespace octet
