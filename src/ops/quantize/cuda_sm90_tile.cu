// FP8 copies of a matrix, one 128x128 tile per block: the input is read once, both copies are cast
// from registers. Memory-bound; enough blocks per multiprocessor keep the loads in flight.
#include "ops/quantize/problem.hpp"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/quantize/cuda_sm90_params.cuh"

namespace octet {
namespace sm90 {

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void quantize_kernel(
    const __grid_constant__ QuantizeParams params) {
  __shared__ QuantizeStorage shared;
  const PatchPlace place(blockIdx.x / params.tiles_across, blockIdx.x % params.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<kDtype> patch;
  load_patch(patch,
             {params.input, params.rows, params.cols, params.aligned, is_inside(params, place)},
             place);
  quantize_patch<kE5m2>(shared, params, patch, place);
}

}  // namespace sm90

namespace {

using sm90::QuantizeParams;

using Kernel = void (*)(QuantizeParams);

template <Dtype kDtype>
Kernel kernel_of(Dtype format) {
  return format == Dtype::e5m2 ? sm90::quantize_kernel<kDtype, true>
                               : sm90::quantize_kernel<kDtype, false>;
}

Kernel kernel_of(Dtype input, Dtype format) {
  switch (input) {
    case Dtype::bf16: return kernel_of<Dtype::bf16>(format);
    case Dtype::f16: return kernel_of<Dtype::f16>(format);
    default: return kernel_of<Dtype::f32>(format);
  }
}

}  // namespace

void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  QuantizeParams params = sm90::copies_of({problem.format, problem.block, problem.transposed_block,
                                           problem.amax_floor, problem.pow2_scales},
                                          {args.out, args.transposed}, problem.rows, problem.cols);
  params.input = cuda::matrix_of(args.input);
  params.aligned = cuda::is_aligned16(args.input);

  const auto blocks = static_cast<unsigned>(ceil_div(problem.rows, kBlock)) * params.tiles_across;
  const Kernel kernel = kernel_of(problem.input_dtype, problem.format);
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile", blocks,
                sm90::kQuantizeThreads, 0, static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
