// Launches the Hopper kernels of adamw that write FP8.
#include "ops/adamw/cuda_sm90_tile.cuh"

#include "device/cuda/launch.hpp"
#include "ops/adamw/cuda_sm90_params.cuh"
#include "ops/quantize/cuda_sm90_params.cuh"

namespace octet {
namespace {

using sm90::AdamWTileParams;

using Kernel = void (*)(AdamWTileParams);

template <Dtype kMoments, bool kMaster>
Kernel kernel_of(Dtype format) {
  using Types = sm90::AdamWTypes<Dtype::bf16, Dtype::bf16, kMoments, kMaster>;
  return format == Dtype::e5m2 ? sm90::adamw_tile_kernel<Types, true>
                               : sm90::adamw_tile_kernel<Types, false>;
}

// The kernel of a problem for which has_adamw_tile() holds.
Kernel kernel_of(const AdamWProblem& problem) {
  return problem.master ? kernel_of<Dtype::f32, true>(problem.fp8->format)
                        : kernel_of<Dtype::bf16, false>(problem.fp8->format);
}

}  // namespace

void launch_sm90_adamw_tile(const AdamWProblem& problem, const AdamWArgs& args,
                            const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  AdamWTileParams params{};
  params.step = sm90::params_of(problem, args);
  params.aligned = sm90::are_aligned(args) && problem.cols % sm90::kEight == 0;
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel_of(problem)), "launch of cuda_sm90_tile",
                static_cast<unsigned>(ceil_div(problem.rows, kBlock)) * params.copies.tiles_across,
                sm90::kQuantizeThreads, sizeof(sm90::AdamWTileStorage),
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
