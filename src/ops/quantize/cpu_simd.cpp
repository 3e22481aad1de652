// 128x128 tiles of the input, one read each, written to one or two copies; threads take runs of
// neighbouring tiles. A tile has rows of one matrix or of one group. The kernels need no workspace:
// a thread keeps one tile (at most 90 KiB) on its stack.
#include "ops/quantize/cpu_simd.hpp"

#include "core/checks.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/forms.hpp"
#include "ops/quantize/problem.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <optional>

namespace octet {
namespace {

// Enough runs to balance the threads, long enough to prefetch along a row of tiles.
constexpr std::int64_t kRunsPerThread = 16;
constexpr std::int64_t kLongestRun = 64;

SharedScale shared_scale(BlockShape block, bool is_transposed) {
  if (block == kBlock128x128) return SharedScale::tile;
  return (block == kBlock1x128) != is_transposed ? SharedScale::row : SharedScale::column;
}

// One copy of a row of tiles. The stride of a dimension of extent 1 may be anything, so strides are
// multiplied by indices only.
struct CopyRow {
  TileCopy first;                 // of the first tile
  std::int64_t value_stride = 0;  // from one column of the input to the next
  std::int64_t scale_stride = 0;
  std::int64_t scales_per_tile = 0;  // along the row

  TileCopy tile(std::int64_t index) const {
    TileCopy result = first;
    result.values += index * kBlock * value_stride;
    result.scales += index * scales_per_tile * scale_stride;
    return result;
  }
};

// The copy of the tiles that begin with row `row` of the input. `stream`: past the caches.
CopyRow copy_row(const QuantizedView& copy, bool is_transposed, std::int64_t row, bool stream) {
  const BlockShape block = copy.block;
  const int across = is_transposed ? 1 : 0;  // the dimension of the copy that rows become
  const std::int64_t block_rows = is_transposed ? block.cols : block.rows;
  const auto& strides = copy.values.strides;
  const auto& scale_strides = copy.scales.strides;
  CopyRow result;
  result.first = {
      .wanted = true,
      .shared = shared_scale(block, is_transposed),
      .values = static_cast<std::uint8_t*>(copy.values.data) + row * strides[across],
      .pitch = strides[0],
      .scales = static_cast<float*>(copy.scales.data) + row / block_rows * scale_strides[across],
      .scale_step = block.rows == 1 ? scale_strides[0] : scale_strides[1],
      .stream = stream};
  result.value_stride = strides[1 - across];
  result.scale_stride = scale_strides[1 - across];
  result.scales_per_tile = kBlock / (is_transposed ? block.rows : block.cols);
  return result;
}

// Up to 128 rows of the input, all of its columns, and where they go.
struct TileRow {
  const std::uint8_t* input = nullptr;     // the first row; row 0 if rows are gathered
  std::int64_t pitch = 0;                  // in elements
  const std::int32_t* gathered = nullptr;  // row r is input row gathered[r] / slots; null: row r
  int rows = 0;
  CopyRow out;
  CopyRow transposed;
};

// How a call is cut into rows of tiles.
class TileRows {
 public:
  TileRows(const QuantizeProblem& problem, const QuantizeArgs& args)
      : problem_(problem),
        args_(args),
        rows_per_matrix_(ceil_div(problem.rows, kBlock)),
        streams_out_(problem.block && streams(args.out.values)),
        streams_transposed_(problem.transposed_block && streams(args.transposed.values)) {
    if (problem.groups > 0) groups_.emplace("quantize", args.table, problem.groups, problem.rows);
  }

  // Of rows in groups; the others have no tiles.
  const std::optional<GroupRows>& groups() const { return groups_; }

  std::int64_t count() const {
    if (groups_) return groups_->token_blocks();
    return std::max<std::int64_t>(problem_.batch, 1) * rows_per_matrix_;
  }

  TileRow at(std::int64_t index) const {
    if (groups_) return of_group(index);
    if (problem_.batch == 0) return of_matrix(args_, index * kBlock);
    return of_matrix(matrix_of(problem_, args_, index / rows_per_matrix_),
                     index % rows_per_matrix_ * kBlock);
  }

 private:
  TileRow of_matrix(const QuantizeArgs& args, std::int64_t row) const {
    TileRow result;
    read_rows(args.input, row, result);
    result.rows = static_cast<int>(std::min(kBlock, problem_.rows - row));
    if (problem_.block) result.out = copy_row(args.out, false, row, streams_out_);
    if (problem_.transposed_block) {
      result.transposed = copy_row(args.transposed, true, row, streams_transposed_);
    }
    return result;
  }

  TileRow of_group(std::int64_t block) const {
    const std::int64_t group = groups_->group_of(block);
    const std::int64_t row = groups_->begin(group) + (block - groups_->first_block(group)) * kBlock;
    TileRow result;
    read_rows(args_.input, problem_.source_rows > 0 ? 0 : row, result);
    if (problem_.source_rows > 0) {
      result.gathered = static_cast<const std::int32_t*>(args_.source.data) + row;
    }
    result.rows = static_cast<int>(std::min(kBlock, groups_->end(group) - row));
    if (problem_.block) result.out = copy_row(args_.out, false, row, streams_out_);
    if (problem_.transposed_block) {
      result.transposed =
          copy_row(matrix_of(args_.transposed, block), true, 0, streams_transposed_);
      result.transposed.first.fills_columns = true;
    }
    return result;
  }

  void read_rows(const TensorView& input, std::int64_t row, TileRow& result) const {
    result.pitch = input.strides[0];
    result.input = static_cast<const std::uint8_t*>(input.data) +
                   row * result.pitch * size_bytes(problem_.input_dtype);
  }

  const QuantizeProblem& problem_;
  const QuantizeArgs& args_;
  std::int64_t rows_per_matrix_;
  bool streams_out_;
  bool streams_transposed_;
  std::optional<GroupRows> groups_;
};

Tile tile_at(const QuantizeProblem& problem, const TileRow& row, std::int64_t index) {
  const std::int64_t tile_bytes = kBlock * size_bytes(problem.input_dtype);
  Tile tile;
  tile.input = row.input + index * tile_bytes;
  tile.pitch = row.pitch;
  tile.gathered = row.gathered;
  tile.slots = static_cast<std::int32_t>(slots_per_row(problem));
  tile.rows = row.rows;
  tile.cols = static_cast<int>(std::min(kBlock, problem.cols - index * kBlock));
  if ((index + 2) * kBlock <= problem.cols) tile.next = row.input + (index + 1) * tile_bytes;
  tile.amax_floor = problem.amax_floor;
  tile.pow2_scales = problem.pow2_scales;
  if (problem.block) tile.out = row.out.tile(index);
  if (problem.transposed_block) tile.transposed = row.transposed.tile(index);
  return tile;
}

// Tiles [begin, end) of a row.
void quantize_row(const QuantizeProblem& problem, const TileRow& row, std::int64_t begin,
                  std::int64_t end, InstructionSet instructions) {
  const QuantizeTile quantize_tile =
      quantize_kernel(instructions, problem.input_dtype, problem.format);
  for (std::int64_t i = begin; i < end; ++i) quantize_tile(tile_at(problem, row, i));
  // Other threads see the streamed stores before what follows.
  if (row.out.first.stream || row.transposed.first.stream) hwy::FlushStream();
}

}  // namespace

void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context, InstructionSet instructions) {
  const TileRows rows(problem, args);
  const std::int64_t tile_cols = ceil_div(problem.cols, kBlock);
  const std::int64_t tiles = rows.count() * tile_cols;
  const std::int64_t run =
      std::clamp<std::int64_t>(tiles / (context.threads * kRunsPerThread), 1, kLongestRun);
  parallel_for(context.threads, ceil_div(tiles, run), [&](std::int64_t index) {
    const std::int64_t end = std::min((index + 1) * run, tiles);
    for (std::int64_t i = index * run; i < end;) {
      const std::int64_t first = i % tile_cols;
      const std::int64_t count = std::min(tile_cols - first, end - i);
      quantize_row(problem, rows.at(i / tile_cols), first, first + count, instructions);
      i += count;
    }
  });
  if (rows.groups() && problem.block && problem.tail == GroupTail::zero) {
    clear_rows(args.out, rows.groups()->grouped_rows(), context.threads);
  }
  if (problem.block) clear_padding(args.out);
  if (problem.transposed_block) clear_padding(args.transposed);
}

void quantize_strip_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                             std::int64_t index, const void* strip, std::int64_t pitch,
                             InstructionSet instructions) {
  TileRow tiles = TileRows(problem, args).at(index);
  tiles.input = static_cast<const std::uint8_t*>(strip);
  tiles.pitch = pitch;
  quantize_row(problem, tiles, 0, ceil_div(problem.cols, kBlock), instructions);
}

constinit const QuantizeImplementation kQuantizeCpuSimd{
    "cpu_simd",
    [](const QuantizeProblem& problem, const Machine& machine) -> std::string {
      if (!has_plain_blocks(problem)) {
        return "takes blocks of 128, without given scales and without mx inside";
      }
      return refuse_off_simd(problem.device, machine);
    },
    [](const QuantizeProblem& problem, const Machine& machine) {
      return planned_simd<QuantizeArgs>(problem, machine, 0, quantize_cpu_simd);
    }};

}  // namespace octet
