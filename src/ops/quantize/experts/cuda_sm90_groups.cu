// Launches the Hopper quantiser over groups of rows, gathered or not. The grid provides for every
// token block that the groups can need: the host does not know how many there are.
#include "ops/quantize/experts/cuda_sm90_groups.cuh"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/experts/cuda_sm90_experts.cuh"
#include "ops/quantize/problem.hpp"

namespace octet {
namespace sm90 {

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void quantize_groups_kernel(
    const __grid_constant__ QuantizeGroupsParams params) {
  __shared__ QuantizeStorage shared;
  const auto index = static_cast<std::int32_t>(blockIdx.x / params.copies.tiles_across);
  const PatchPlace place(0, blockIdx.x % params.copies.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();

  // Find the rows
  if (index == 0) fill_scale_padding(params.copies, params.groups, place.tile_col);
  const TokenTile tile = find_tile(params.groups, index);
  if (tile.rows == 0) return;
  const QuantizeParams own = copies_of_tile(params.copies, params.groups, tile, index);
  if (!tile.grouped) {
    if (params.groups.clear_tail) clear_tile(own, tile, place);
    return;
  }

  // Read and cast
  std::int32_t rows[kPatch];
  find_rows(params.gather, tile, place, rows);
  Patch<kDtype> patch;
  load_rows(patch,
            {own.input, params.gather.input_rows, own.cols, own.aligned,
             is_inside<TileRows::of_group>(own, place)},
            rows, place);
  quantize_patch<kE5m2, L2Hint::normal, TileRows::of_group>(shared, own, patch, place);
}

}  // namespace sm90

namespace {

sm90::GatherParams gather_of(const QuantizeProblem& problem, const QuantizeArgs& args) {
  if (problem.source_rows == 0) return {nullptr, 0, problem.rows, Divisor(1)};
  return {static_cast<const std::int32_t*>(args.source.data),
          static_cast<std::uint32_t>(source_slots(problem)), problem.source_rows,
          Divisor(static_cast<int>(slots_per_row(problem)))};
}

}  // namespace

void launch_sm90_groups(const QuantizeProblem& problem, const QuantizeArgs& args,
                        const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const Fp8Output fp8 = options_of(problem);
  const Fp8Copies copies{args.out, args.transposed};
  sm90::QuantizeGroupsParams params{
      sm90::group_copies_of(fp8, copies, problem.rows, problem.cols),
      sm90::groups_of(fp8, copies, args.table, problem.groups, problem.rows, problem.tail),
      gather_of(problem, args)};
  params.copies.input = cuda::matrix_of(args.input);
  params.copies.aligned = cuda::is_aligned16(args.input);
  const auto kernel = sm90::with_cast(problem.input_dtype, problem.format, [](auto cast) {
    return &sm90::quantize_groups_kernel<decltype(cast)::kDtype, decltype(cast)::kE5m2>;
  });
  const GroupTableLayout layout{problem.groups, problem.rows};
  const auto tiles = static_cast<unsigned>(max_token_tiles(layout, params.groups.clear_tail));
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
                tiles * params.copies.tiles_across, sm90::kQuantizeThreads, 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
