// 128x128 tiles of the input, one read each, written to one or two copies; threads take runs of
// neighbouring tiles. The kernels need no workspace: a thread keeps one tile (at most 90 KiB) on
// its stack.
#include "ops/quantize/cpu_simd.hpp"

#include "core/checks.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/quantize/problem.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

namespace octet {
namespace {

// Enough runs to balance the threads, long enough to prefetch along a row of tiles.
constexpr std::int64_t kRunsPerThread = 16;
constexpr std::int64_t kLongestRun = 64;

SharedScale shared_scale(BlockShape block, bool is_transposed) {
  if (block == kBlock128x128) return SharedScale::tile;
  return (block == kBlock1x128) != is_transposed ? SharedScale::row : SharedScale::column;
}

// The part of `copy` whose first element is (row, col), in the copy's own coordinates.
TileCopy tile_copy(const QuantizedView& copy, bool is_transposed, std::int64_t row,
                   std::int64_t col) {
  const TensorView& scales = copy.scales;
  TileCopy result;
  result.wanted = true;
  result.shared = shared_scale(copy.block, is_transposed);
  result.pitch = copy.values.strides[0];
  result.values = static_cast<std::uint8_t*>(copy.values.data) + row * result.pitch + col;
  result.scales = static_cast<float*>(scales.data) + row / copy.block.rows * scales.strides[0] +
                  col / copy.block.cols * scales.strides[1];
  result.scale_step = copy.block.rows == 1 ? scales.strides[0] : scales.strides[1];
  result.stream = streams(copy.values);
  return result;
}

// The rows of a problem that are present in memory.
struct Rows {
  const std::uint8_t* first;   // element (first_row, 0)
  std::int64_t first_row = 0;  // a multiple of kBlock
  std::int64_t pitch = 0;      // in elements
};

Tile tile_at(const QuantizeProblem& problem, const QuantizeArgs& args, const Rows& rows,
             std::int64_t row, std::int64_t col) {
  const std::int64_t element_bytes = size_bytes(problem.input_dtype);
  const auto* input = rows.first + ((row - rows.first_row) * rows.pitch + col) * element_bytes;
  Tile tile;
  tile.pitch = rows.pitch;
  tile.input = input;
  tile.rows = static_cast<int>(std::min(kBlock, problem.rows - row));
  tile.cols = static_cast<int>(std::min(kBlock, problem.cols - col));
  if (col + 2 * kBlock <= problem.cols) tile.next = input + kBlock * element_bytes;
  tile.amax_floor = problem.amax_floor;
  tile.pow2_scales = problem.pow2_scales;
  if (problem.block) tile.out = tile_copy(args.out, false, row, col);
  if (problem.transposed_block) tile.transposed = tile_copy(args.transposed, true, col, row);
  return tile;
}

// Tiles [begin, end), numbered row of tiles by row of tiles.
void quantize_tiles(const QuantizeProblem& problem, const QuantizeArgs& args, const Rows& rows,
                    std::int64_t begin, std::int64_t end, InstructionSet instructions) {
  const QuantizeTile quantize_tile =
      quantize_kernel(instructions, problem.input_dtype, problem.format);
  const std::int64_t tile_cols = ceil_div(problem.cols, kBlock);
  bool streamed = false;
  for (std::int64_t i = begin; i < end; ++i) {
    const Tile tile = tile_at(problem, args, rows, i / tile_cols * kBlock, i % tile_cols * kBlock);
    quantize_tile(tile);
    streamed |= tile.out.stream || tile.transposed.stream;
  }
  if (streamed) hwy::FlushStream();  // other threads see the streamed stores before what follows
}

}  // namespace

void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context, InstructionSet instructions) {
  const Rows rows{static_cast<const std::uint8_t*>(args.input.data), 0, args.input.strides[0]};
  const std::int64_t tiles = ceil_div(problem.rows, kBlock) * ceil_div(problem.cols, kBlock);
  const std::int64_t run =
      std::clamp<std::int64_t>(tiles / (context.threads * kRunsPerThread), 1, kLongestRun);
  parallel_for(context.threads, ceil_div(tiles, run), [&](std::int64_t index) {
    quantize_tiles(problem, args, rows, index * run, std::min((index + 1) * run, tiles),
                   instructions);
  });
  if (problem.block) clear_padding(args.out);
  if (problem.transposed_block) clear_padding(args.transposed);
}

void quantize_strip_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                             std::int64_t row, const void* strip, std::int64_t pitch,
                             InstructionSet instructions) {
  const std::int64_t tile_cols = ceil_div(problem.cols, kBlock);
  const std::int64_t first = row / kBlock * tile_cols;
  quantize_tiles(problem, args, {static_cast<const std::uint8_t*>(strip), row, pitch}, first,
                 first + tile_cols, instructions);
}

constinit const QuantizeImplementation kQuantizeCpuSimd =
    cpu_simd<QuantizeProblem, QuantizeArgs, quantize_cpu_simd>();

}  // namespace octet
