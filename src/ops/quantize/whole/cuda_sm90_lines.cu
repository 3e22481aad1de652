// FP8 copies with a scale per row, column or tensor, in two passes over 128x128 tiles: the first
// finds all maxima from one read, the second casts both copies from one read. It walks the other
// way, so that it begins with what is still in the L2 cache. Scales that are given, or that follow
// from 128 elements of a line, need the second only. Memory-bound.
#include "ops/quantize/whole/cuda_sm90_lines.cuh"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/cuda_sm90_params.cuh"
#include "ops/quantize/launches.hpp"

namespace octet {
namespace sm90 {

inline constexpr int kClearThreads = 256;
inline constexpr int kClearWords = 4 * kClearThreads;  // of a block

// The maxima begin as zeros, whatever the workspace holds.
__global__ __launch_bounds__(kClearThreads) void clear_maxima_kernel(std::uint32_t* maxima,
                                                                     std::int64_t words) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t word =
        std::int64_t{blockIdx.x} * kClearWords + i * kClearThreads + threadIdx.x;
    if (word < words) maxima[word] = 0;
  }
}

template <Dtype kDtype>
__global__ __launch_bounds__(kQuantizeThreads, 4) void find_maxima_kernel(
    const __grid_constant__ LinesParams params) {
  __shared__ QuantizeStorage shared;
  const QuantizeParams& copies = params.copies;
  const PatchPlace place(blockIdx.x / copies.tiles_across, blockIdx.x % copies.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<kDtype> patch;
  load_patch(patch,
             {copies.input, copies.rows, copies.cols, copies.aligned, is_inside(copies, place)},
             place);
  const bool finite = __syncthreads_and(find_maxima(shared, patch, place, false));
  if (!finite) {
    find_maxima(shared, patch, place, true);
    __syncthreads();
  }
  add_maxima(shared, params, place);
}

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void cast_lines_kernel(
    const __grid_constant__ LinesParams params) {
  __shared__ QuantizeStorage shared;
  const QuantizeParams& copies = params.copies;
  const unsigned tile = params.reversed ? params.tiles - 1 - blockIdx.x : blockIdx.x;
  const PatchPlace place(tile / copies.tiles_across, tile % copies.tiles_across);
  const bool inside = is_inside(copies, place);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  Patch<kDtype> patch;
  load_patch(patch, {copies.input, copies.rows, copies.cols, copies.aligned, inside}, place);

  // Maxima of the tile
  if (params.out.form.scales == LineScales::tile ||
      params.transposed.form.scales == LineScales::tile) {
    if (!__syncthreads_and(find_maxima(shared, patch, place, false))) {
      find_maxima(shared, patch, place, true);
      __syncthreads();
    }
  }

  // Factors, while the loads of other forms are still in flight
  if (threadIdx.x < kTile) {
    find_factor<kDtype>(shared, params, params.out, copies.out, place, shared.row_scale);
  } else {
    find_factor<kDtype>(shared, params, params.transposed, copies.transposed, place,
                        shared.col_scale);
  }
  const bool finite = __syncthreads_and(is_finite(patch));

  // Copies
  if (!finite || !inside || is_by_column(params.out) || is_by_row(params.transposed)) {
    write_any<kE5m2>(shared, params, patch, place);
  } else if (copies.transposed.kind == ScaleKind::none) {
    write_inside<kE5m2, true, false, L2Hint::normal, TileRows::of_matrix>(shared, copies, patch,
                                                                          place);
  } else if (copies.out.kind == ScaleKind::none) {
    write_inside<kE5m2, false, true, L2Hint::normal, TileRows::of_matrix>(shared, copies, patch,
                                                                          place);
  } else {
    write_inside<kE5m2, true, true, L2Hint::normal, TileRows::of_matrix>(shared, copies, patch,
                                                                         place);
  }
}

}  // namespace sm90

namespace {

using sm90::LineCopy;
using sm90::LinesParams;

// The scales of a copy by lines of the input, and the copy as the kernel takes it.
LineCopy line_copy(const QuantizeProblem& problem, const std::optional<BlockShape>& block,
                   bool is_transposed, const QuantizedView& view, sm90::QuantizedCopy& copy) {
  LineCopy result{};
  result.form.axis = is_transposed ? LineAxis::column : LineAxis::row;
  if (!block) return result;
  result.form = *line_form(*block, is_transposed, problem.given_scales);
  const auto& strides = view.scales.strides;
  const int along = block->cols == 1 ? 1 : 0;  // the dimension of the scales that lines are along
  result.lines = view.scales.shape[along];
  result.line_stride = strides[along];
  const bool in_slices = *block == kBlock1x128 || *block == kBlock128x1;
  result.slice_stride = in_slices ? strides[1 - along] : 0;
  copy.kind = sm90::ScaleKind::lines;
  copy.scale_pitch = strides[1 - along];
  return result;
}

template <Dtype kDtype>
const void* cast_kernel(Dtype format) {
  return format == Dtype::e5m2
             ? reinterpret_cast<const void*>(sm90::cast_lines_kernel<kDtype, true>)
             : reinterpret_cast<const void*>(sm90::cast_lines_kernel<kDtype, false>);
}

const void* cast_kernel(const QuantizeProblem& problem) {
  return problem.input_dtype == Dtype::bf16 ? cast_kernel<Dtype::bf16>(problem.format)
                                            : cast_kernel<Dtype::f16>(problem.format);
}

const void* maxima_kernel(Dtype input) {
  return input == Dtype::bf16 ? reinterpret_cast<const void*>(sm90::find_maxima_kernel<Dtype::bf16>)
                              : reinterpret_cast<const void*>(sm90::find_maxima_kernel<Dtype::f16>);
}

constexpr const char* kLaunchName = "launch of cuda_sm90_lines";

}  // namespace

void launch_sm90_lines(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  auto* const stream = static_cast<cudaStream_t>(context.stream);
  LinesParams params{};
  params.copies =
      sm90::copies_of(options_of(problem), {args.out, args.transposed}, problem.rows, problem.cols);
  params.copies.input = cuda::matrix_of(args.input);
  params.copies.aligned = cuda::is_aligned16(args.input);
  params.out = line_copy(problem, problem.block, false, args.out, params.copies.out);
  params.transposed =
      line_copy(problem, problem.transposed_block, true, args.transposed, params.copies.transposed);
  params.maxima = line_maxima(problem);
  params.found = static_cast<std::uint32_t*>(context.workspace.data);
  params.tiles = static_cast<unsigned>(ceil_div(problem.rows, kBlock)) * params.copies.tiles_across;
  void* arguments[] = {&params};
  std::int64_t words = params.maxima.words();
  if (words > 0) {
    void* cleared[] = {&params.found, &words};
    cuda::launch(
        {reinterpret_cast<const void*>(sm90::clear_maxima_kernel), kLaunchName,
         static_cast<unsigned>(ceil_div(words, sm90::kClearWords)), sm90::kClearThreads, 0, stream},
        cleared);
    cuda::launch({maxima_kernel(problem.input_dtype), kLaunchName, params.tiles,
                  sm90::kQuantizeThreads, 0, stream},
                 arguments);
    params.reversed = true;
  }
  cuda::launch({cast_kernel(problem), kLaunchName, params.tiles, sm90::kQuantizeThreads, 0, stream},
               arguments);
}

}  // namespace octet
