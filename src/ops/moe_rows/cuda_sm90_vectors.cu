// Launches the Hopper kernels of moe_permute and moe_unpermute.
#include "ops/moe_rows/cuda_sm90_copy.cuh"
#include "ops/moe_rows/cuda_sm90_scale.cuh"
#include "ops/moe_rows/cuda_sm90_sum.cuh"
#include "ops/moe_rows/sm90_steps.hpp"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"

namespace octet {
namespace {

using sm90::ElementAccess;
using sm90::VectorAccess;

sm90::RowMaps maps_of(const RowsCall& call) {
  return {static_cast<const std::int32_t*>(call.row_of.data),
          call.row_of.strides[0],
          static_cast<const std::int32_t*>(call.source.data),
          static_cast<std::int32_t>(call.tokens * call.top_k),
          static_cast<std::int32_t>(call.rows),
          Divisor(static_cast<int>(call.top_k))};
}

sm90::RowMatrix matrix_of(const TensorView& view) {
  return {view.data, view.strides[0], static_cast<int>(view.cols()), view.dtype};
}

sm90::SlotFloats floats_of(const TensorView& view) {
  return {static_cast<float*>(view.data), view.data == nullptr ? 0 : view.strides[0]};
}

float* row_floats_of(const TensorView& view) { return static_cast<float*>(view.data); }

// Rows that kernels move in vectors of 16 bytes.
bool are_whole(std::initializer_list<TensorView> views) {
  bool result = cuda::are_aligned16(views);
  for (const TensorView& view : views) result = result && view.cols() % sm90::kEight == 0;
  return result;
}

// The blocks that zero rows follow `blocks` others. Returns how many there are of both.
std::int64_t add_zeroing(const RowsCall& call, const TensorView& matrix, bool whole,
                         const TensorView& row_weight, const RowBlocks& row, std::int64_t blocks,
                         sm90::ZeroedRows& zeroed) {
  zeroed.first_block = static_cast<unsigned>(blocks);
  if (call.tail != GroupTail::zero) return blocks;
  const int element = size_bytes(matrix.dtype);
  zeroed.unit_bytes = whole ? 16 : element;
  zeroed.data = matrix.data;
  zeroed.pitch = matrix.strides[0] / (zeroed.unit_bytes / element);
  zeroed.units = static_cast<int>(matrix.cols() * element / zeroed.unit_bytes);
  zeroed.row_weight = row_floats_of(row_weight);
  return blocks + ceil_div(call.rows, row.threads);
}

template <class Params>
void launch_kernel(const RowsCall& call, void (*kernel)(Params), Params params, std::int64_t blocks,
                   int threads, std::size_t shared_bytes = 0) {
  if (blocks == 0) return;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_vectors",
                static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared_bytes,
                static_cast<cudaStream_t>(call.stream)},
               arguments);
}

template <class Unit, int kUnits>
void launch_copy(const RowsCall& call, sm90::CopyRowsParams params, const TensorView& from,
                 const TensorView& grouped, const TensorView& row_weight) {
  const int per_unit = static_cast<int>(sizeof(Unit)) / size_bytes(grouped.dtype);
  params.from_pitch = from.strides[0] / per_unit;
  params.grouped_pitch = grouped.strides[0] / per_unit;
  params.blocks = RowBlocks(static_cast<int>(call.cols) / per_unit, kUnits);
  const std::int64_t blocks =
      add_zeroing(call, grouped, sizeof(Unit) == 16, row_weight, params.blocks,
                  call.tokens * params.blocks.chunks, params.zeroed);
  launch_kernel(call, sm90::copy_rows_kernel<Unit, kUnits>, params, blocks, params.blocks.threads);
}

template <class Access>
void launch_sum(const RowsCall& call, sm90::SumRowsParams params) {
  params.blocks = RowBlocks(static_cast<int>(ceil_div(call.cols, sm90::kEight)), Access::kEights);
  launch_kernel(call, sm90::sum_rows_kernel<Access>, params, call.tokens * params.blocks.chunks,
                params.blocks.threads);
}

template <class Access>
void launch_scale(const RowsCall& call, sm90::ScaleRowsParams params, const TensorView& dgrouped,
                  bool whole) {
  params.blocks = RowBlocks(static_cast<int>(ceil_div(call.cols, sm90::kEight)), 1);
  params.tree_sums = 1 << cuda::log2_up(params.blocks.chunks * params.blocks.threads / 32);
  params.slot_blocks = static_cast<int>(ceil_div(call.top_k, sm90::kScaleSlots));
  const std::int64_t blocks = add_zeroing(call, dgrouped, whole, {}, params.blocks,
                                          call.tokens * params.slot_blocks, params.zeroed);
  launch_kernel(call, sm90::scale_rows_kernel<Access>, params, blocks, params.blocks.threads,
                sm90::kScaleSlots * static_cast<std::size_t>(params.tree_sums) * sizeof(float));
}

}  // namespace

void launch_sm90_copy_rows(const RowsCall& call, const TensorView& from, const TensorView& grouped,
                           const SlotNumbers& numbers) {
  const cuda::DeviceScope scope(call.device.index);
  sm90::CopyRowsParams params{};
  params.maps = maps_of(call);
  params.from = from.data;
  params.grouped = grouped.data;
  params.weights = floats_of(numbers.slots);
  params.row_weight = row_floats_of(numbers.rows);
  const std::int64_t row_bytes = call.cols * size_bytes(grouped.dtype);
  if (cuda::are_aligned16({from, grouped}) && row_bytes % 16 == 0) {
    launch_copy<uint4, 2>(call, params, from, grouped, numbers.rows);
  } else if (grouped.dtype == Dtype::f32) {
    launch_copy<std::uint32_t, 8>(call, params, from, grouped, numbers.rows);
  } else {
    launch_copy<std::uint16_t, 8>(call, params, from, grouped, numbers.rows);
  }
}

void launch_sm90_sum_rows(const RowsCall& call, const SumStep& step, const SlotNumbers& numbers) {
  const cuda::DeviceScope scope(call.device.index);
  sm90::SumRowsParams params{};
  params.maps = maps_of(call);
  params.grouped = matrix_of(step.grouped);
  params.out = matrix_of(step.out);
  params.weights = floats_of(step.weights);
  params.d_row_weight = row_floats_of(numbers.rows);
  params.dweights = floats_of(numbers.slots);
  if (!are_whole({step.grouped, step.out})) return launch_sum<ElementAccess>(call, params);
  switch (step.out.dtype) {
    case Dtype::bf16: return launch_sum<VectorAccess<Dtype::bf16>>(call, params);
    case Dtype::f16: return launch_sum<VectorAccess<Dtype::f16>>(call, params);
    default: return launch_sum<VectorAccess<Dtype::f32>>(call, params);
  }
}

void launch_sm90_scale_rows(const RowsCall& call, const SpreadStep& spread, const DotStep& dot) {
  const cuda::DeviceScope scope(call.device.index);
  sm90::ScaleRowsParams params{};
  params.maps = maps_of(call);
  params.dout = matrix_of(spread.from);
  params.grouped = matrix_of(dot.grouped);
  params.dgrouped = matrix_of(spread.grouped);
  params.weights = floats_of(spread.weights);
  params.dweights = floats_of(dot.dweights);
  const TensorView& dgrouped = spread.grouped;
  if (!are_whole({spread.from, dot.grouped, dgrouped})) {
    return launch_scale<ElementAccess>(call, params, dgrouped, false);
  }
  switch (dgrouped.dtype) {
    case Dtype::bf16: return launch_scale<VectorAccess<Dtype::bf16>>(call, params, dgrouped, true);
    case Dtype::f16: return launch_scale<VectorAccess<Dtype::f16>>(call, params, dgrouped, true);
    default: return launch_scale<VectorAccess<Dtype::f32>>(call, params, dgrouped, true);
  }
}

}  // namespace octet
