// Launches the Hopper kernels of adamw.
#include "ops/adamw/cuda_sm90_vectors.cuh"

#include "device/cuda/launch.hpp"
#include "ops/adamw/cuda_sm90_params.cuh"

namespace octet {
namespace {

using sm90::AdamWParams;

struct Kernel {
  void (*function)(AdamWParams);
  std::int64_t block_elements;
};

template <Dtype kW, Dtype kG, Dtype kM, bool kMaster>
Kernel eights() {
  using Types = sm90::AdamWTypes<kW, kG, kM, kMaster>;
  return {sm90::adamw_eights_kernel<Types>, sm90::kAdamWThreads * sm90::kEight * Types::kEights};
}

template <Dtype kW, Dtype kG, Dtype kM>
Kernel eights(bool master) {
  return master ? eights<kW, kG, kM, true>() : eights<kW, kG, kM, false>();
}

// The kernel of a problem for which has_adamw_vectors() holds.
Kernel eights_of(const AdamWProblem& problem) {
  constexpr Dtype f32 = Dtype::f32, f16 = Dtype::f16, bf16 = Dtype::bf16;
  if (problem.dtype == f32) return eights<f32, f32, f32, false>();
  if (problem.dtype == f16) return eights<f16, f16, f32>(problem.master);
  if (problem.grad_dtype == f32) return eights<bf16, f32, f32, true>();
  if (problem.moments_dtype == f32) return eights<bf16, bf16, f32>(problem.master);
  return eights<bf16, bf16, bf16>(problem.master);
}

Kernel kernel_of(const AdamWProblem& problem, const AdamWArgs& args) {
  if (sm90::are_aligned(args) && has_adamw_vectors(problem)) return eights_of(problem);
  return {sm90::adamw_elements_kernel, sm90::kAdamWThreads};
}

}  // namespace

void launch_sm90_adamw(const AdamWProblem& problem, const AdamWArgs& args,
                       const RunContext& context) {
  if (problem.count == 0) return;
  const cuda::DeviceScope scope(problem.device.index);
  AdamWParams params = sm90::params_of(problem, args);
  const Kernel kernel = kernel_of(problem, args);
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel.function), "launch of cuda_sm90_vectors",
                static_cast<unsigned>(ceil_div(problem.count, kernel.block_elements)),
                sm90::kAdamWThreads, 0, static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
