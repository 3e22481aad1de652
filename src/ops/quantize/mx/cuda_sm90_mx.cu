// FP8 copies in mx blocks, or folded from them, one 128x128 tile per block as the quantiser of blocks
// of 128: one read, both copies cast from registers. Memory-bound.
#include "ops/quantize/mx/cuda_sm90_mx.cuh"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/launches.hpp"

namespace octet {
namespace sm90 {

template <Dtype kDtype, bool kE5m2, bool kFold>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void quantize_mx_kernel(
    const __grid_constant__ MxParams params) {
  __shared__ MxStorage shared;
  const QuantizeParams& copies = params.copies;
  const PatchPlace place(blockIdx.x / copies.tiles_across, blockIdx.x % copies.tiles_across);
  const bool inside = is_inside(copies, place);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<kDtype> patch;
  load_patch(patch, {copies.input, copies.rows, copies.cols, copies.aligned, inside}, place);

  // Maxima
  const bool finite = __syncthreads_and(find_mx_maxima(shared, patch, place, false));
  if (!finite) {  // find them again, over the finite elements only
    Patch<kDtype> copy = patch;
    make_opaque(copy);
    find_mx_maxima(shared, copy, place, true);
    __syncthreads();
  }
  if (copies.out.kind == ScaleKind::square || copies.transposed.kind == ScaleKind::square) {
    find_square_maxima(shared);
    __syncthreads();
  }

  // Scales
  if (threadIdx.x < kTile) {
    find_mx_scales<kDtype, kE5m2, kFold, false>(
        shared, params, copies.out, params.out,
        {place.tile_row0(), copies.rows, place.tile_col, std::int64_t{copies.tiles_across}}, inside,
        shared.out);
  } else {
    find_mx_scales<kDtype, kE5m2, kFold, true>(
        shared, params, copies.transposed, params.transposed,
        {place.tile_col0(), copies.cols, place.tile_row, (copies.rows + kTile - 1) / kTile}, inside,
        shared.transposed);
  }
  __syncthreads();

  // Copies
  if (!finite || !inside) {
    write_mx_edge<kE5m2, kFold>(shared, copies, patch, place);
  } else if (copies.transposed.kind == ScaleKind::none) {
    write_mx_inside<kE5m2, kFold, true, false>(shared, copies, patch, place);
  } else if (copies.out.kind == ScaleKind::none) {
    write_mx_inside<kE5m2, kFold, false, true>(shared, copies, patch, place);
  } else {
    write_mx_inside<kE5m2, kFold, true, true>(shared, copies, patch, place);
  }
}

}  // namespace sm90

namespace {

template <Dtype kDtype, bool kE5m2>
const void* kernel_of(bool fold) {
  return fold ? reinterpret_cast<const void*>(sm90::quantize_mx_kernel<kDtype, kE5m2, true>)
              : reinterpret_cast<const void*>(sm90::quantize_mx_kernel<kDtype, kE5m2, false>);
}

template <Dtype kDtype>
const void* kernel_of(const QuantizeProblem& problem) {
  return problem.format == Dtype::e5m2 ? kernel_of<kDtype, true>(problem.fold_mx)
                                       : kernel_of<kDtype, false>(problem.fold_mx);
}

sm90::MxScales scales_of(const TensorView& scales, sm90::QuantizedCopy& copy, BlockShape block) {
  if (!is_mx(block)) return {};
  copy.kind = block == kBlock32x32 ? sm90::ScaleKind::square : sm90::ScaleKind::lines;
  return {static_cast<std::uint8_t*>(scales.data),
          {scales.strides[0], scales.strides[1]},
          scales.rows(),
          scales.cols(),
          scales.strides[0]};
}

}  // namespace

void launch_sm90_mx(const QuantizeProblem& problem, const QuantizeArgs& args,
                    const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::MxParams params{};
  params.copies =
      sm90::copies_of(options_of(problem), {args.out, args.transposed}, problem.rows, problem.cols);
  params.copies.input = cuda::matrix_of(args.input);
  params.copies.aligned = cuda::is_aligned16(args.input);
  params.rule = mx_rule(problem.mx_scale, fp8_format(problem.format));
  if (problem.block) params.out = scales_of(args.out.scales, params.copies.out, *problem.block);
  if (problem.transposed_block) {
    params.transposed =
        scales_of(args.transposed.scales, params.copies.transposed, *problem.transposed_block);
  }
  const auto blocks =
      static_cast<unsigned>(ceil_div(problem.rows, kBlock)) * params.copies.tiles_across;
  void* arguments[] = {&params};
  cuda::launch({problem.input_dtype == Dtype::bf16 ? kernel_of<Dtype::bf16>(problem)
                                                   : kernel_of<Dtype::f16>(problem),
                "launch of cuda_sm90_mx", blocks, sm90::kQuantizeThreads, 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
