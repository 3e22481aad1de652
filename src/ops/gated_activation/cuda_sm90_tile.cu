// Launches the Hopper kernels of gated_activation that write FP8.
#include "ops/gated_activation/cuda_sm90_tile.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"

namespace octet {
namespace {

using sm90::GatedTileParams;

using Kernel = void (*)(GatedTileParams);

template <Dtype kDtype>
Kernel kernel_of(Dtype format, bool backward) {
  if (backward) {
    return format == Dtype::e5m2 ? sm90::gated_backward_tile_kernel<kDtype, true>
                                 : sm90::gated_backward_tile_kernel<kDtype, false>;
  }
  return format == Dtype::e5m2 ? sm90::gated_forward_tile_kernel<kDtype, true>
                               : sm90::gated_forward_tile_kernel<kDtype, false>;
}

template <class Args>
GatedTileParams params_of(const GatedActivationProblem& problem, const Args& args) {
  GatedTileParams params{};
  params.gate = cuda::matrix_of(args.gate);
  params.up = cuda::matrix_of(args.up);
  params.row_weight =
      problem.row_weight ? static_cast<const float*>(args.row_weight.data) : nullptr;
  params.cols = problem.cols;
  params.activation = problem.activation;
  return params;
}

void launch(const GatedActivationProblem& problem, GatedTileParams& params, bool backward,
            void* stream) {
  const Kernel kernel = problem.dtype == Dtype::bf16
                            ? kernel_of<Dtype::bf16>(problem.fp8->format, backward)
                            : kernel_of<Dtype::f16>(problem.fp8->format, backward);
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
       static_cast<unsigned>(ceil_div(problem.rows, kBlock) * ceil_div(problem.cols, kBlock)),
       sm90::kQuantizeThreads,
       backward ? sizeof(sm90::GatedBackwardStorage<Dtype::bf16>)
                : sizeof(sm90::GatedForwardStorage<Dtype::bf16>),
       static_cast<cudaStream_t>(stream)},
      arguments);
}

}  // namespace

void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationForwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedTileParams params = params_of(problem, args);
  params.aligned = cuda::are_aligned16({args.gate, args.up});
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, problem.cols);
  launch(problem, params, false, context.stream);
}

void launch_sm90_gated_tile(const GatedActivationProblem& problem,
                            const GatedActivationBackwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedTileParams params = params_of(problem, args);
  params.dy = cuda::matrix_of(args.dy);
  params.aligned = cuda::are_aligned16({args.gate, args.up, args.dy});
  params.copies = sm90::copies_of(*problem.fp8, args.fp8, problem.rows, 2 * problem.cols);
  launch(problem, params, true, context.stream);
}

}  // namespace octet
