// 128x128 tiles of the input, one read each, written to one or two copies; threads take runs of
// neighbouring tiles. A tile has rows of one matrix or of one group. A thread keeps one tile (at most
// 90 KiB) on its stack. Scales of whole rows, columns and tensors come from a pass before, through
// the workspace.
#include "ops/quantize/cpu_simd.hpp"

#include "core/checks.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/quantize/scale.hpp"
#include "ops/quantize/whole/lines.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <optional>

namespace octet {
namespace {

// Enough runs to balance the threads, long enough to prefetch along a row of tiles.
constexpr std::int64_t kRunsPerThread = 16;
constexpr std::int64_t kLongestRun = 64;

// Of blocks that are whole rows, columns or tensors; empty for others.
std::optional<LineForm> whole_form(BlockShape block, bool is_transposed) {
  const auto form = line_form(block, is_transposed, false);
  return form && form->scales == LineScales::whole ? form : std::nullopt;
}

SharedScale shared_scale(BlockShape block, bool is_transposed) {
  if (const auto form = whole_form(block, is_transposed)) {
    return form->axis == LineAxis::column ? SharedScale::column : SharedScale::row;
  }
  if (block == kBlock128x128) return SharedScale::tile;
  return (block == kBlock1x128) != is_transposed ? SharedScale::row : SharedScale::column;
}

// One copy of a row of tiles. The stride of a dimension of extent 1 may be anything, so strides are
// multiplied by indices only.
struct CopyRow {
  TileCopy first;                 // of the first tile
  std::int64_t value_stride = 0;  // from one column of the input to the next
  std::int64_t scale_stride = 0;
  std::int64_t scales_per_tile = 0;   // along the row
  std::int64_t factors_per_tile = 0;  // the same of factors that are known

  TileCopy tile(std::int64_t index) const {
    TileCopy result = first;
    result.values += index * kBlock * value_stride;
    if (result.forward != nullptr) {
      result.forward += index * factors_per_tile;
      return result;
    }
    result.scales += index * scales_per_tile * scale_stride;
    return result;
  }
};

// The copy of the tiles that begin with row `row` of the input. `stream`: past the caches.
// `factors`: of whole lines, of all of them; null: the caller adds them.
CopyRow copy_row(const QuantizedView& copy, bool is_transposed, std::int64_t row, bool stream,
                 const float* factors = nullptr) {
  const BlockShape block = copy.block;
  const int across = is_transposed ? 1 : 0;  // the dimension of the copy that rows become
  const std::int64_t block_rows = is_transposed ? block.cols : block.rows;
  const auto& strides = copy.values.strides;
  const auto& scale_strides = copy.scales.strides;
  CopyRow result;
  if (const auto form = whole_form(block, is_transposed)) {
    result.first = {
        .wanted = true,
        .shared = shared_scale(block, is_transposed),
        .values = static_cast<std::uint8_t*>(copy.values.data) + row * strides[across],
        .pitch = strides[0],
        .forward = factors == nullptr ? nullptr : factors + (form->axis == LineAxis::row ? row : 0),
        .stream = stream};
    result.value_stride = strides[1 - across];
    result.factors_per_tile = form->axis == LineAxis::column ? kBlock : 0;
    return result;
  }
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

// Factors of the whole lines of the copies, if they have such; of a whole tensor, 128 times the same.
struct LineFactors {
  const float* out = nullptr;
  const float* transposed = nullptr;
};

// How a call is cut into rows of tiles.
class TileRows {
 public:
  TileRows(const QuantizeProblem& problem, const QuantizeArgs& args,
           const LineFactors& factors = {})
      : problem_(problem),
        factors_(factors),
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
    if (problem_.block) result.out = copy_row(args.out, false, row, streams_out_, factors_.out);
    if (problem_.transposed_block) {
      result.transposed =
          copy_row(args.transposed, true, row, streams_transposed_, factors_.transposed);
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
  LineFactors factors_;
  const QuantizeArgs& args_;
  std::int64_t rows_per_matrix_;
  bool streams_out_;
  bool streams_transposed_;
  std::optional<GroupRows> groups_;
};

Tile tile_at(const QuantizeProblem& problem, const TileRow& row, std::int64_t index,
             const MxRule* rule = nullptr) {
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
  tile.saturates = problem.given_scales;
  tile.mx_rule = rule;
  if (problem.block) tile.out = row.out.tile(index);
  if (problem.transposed_block) tile.transposed = row.transposed.tile(index);
  return tile;
}

// Tiles [begin, end) of a row.
void quantize_row(const QuantizeProblem& problem, const TileRow& row, std::int64_t begin,
                  std::int64_t end, InstructionSet instructions) {
  const QuantizeTile quantize_tile =
      quantize_kernel(instructions, problem.input_dtype, problem.format);
  const MxRule rule = mx_rule(problem.mx_scale, fp8_format(problem.format));
  for (std::int64_t i = begin; i < end; ++i) {
    quantize_tile(tile_at(problem, row, i, problem.fold_mx ? &rule : nullptr));
  }
  // Other threads see the streamed stores before what follows.
  if (row.out.first.stream || row.transposed.first.stream) hwy::FlushStream();
}

// Tiles that are read, without copies.
QuantizeProblem without_copies(QuantizeProblem problem) {
  problem.block.reset();
  problem.transposed_block.reset();
  return problem;
}

// The factors of whole lines, from a first pass over the input or from scales that are given. Their
// places in the workspace: maxima of rows and of columns as bits, then the factors of both copies.
class WholeLines {
 public:
  WholeLines(const QuantizeProblem& problem, const Workspace& workspace)
      : problem_(problem),
        row_max_(static_cast<std::uint32_t*>(workspace.data)),
        column_max_(row_max_ + problem.rows),
        out_(reinterpret_cast<float*>(column_max_ + problem.cols)),
        transposed_(out_ + factors(problem)) {}

  static bool are_wanted(const QuantizeProblem& problem) {
    return (problem.block && whole_form(*problem.block, false)) ||
           (problem.transposed_block && whole_form(*problem.transposed_block, true));
  }
  static std::size_t workspace_bytes(const QuantizeProblem& problem) {
    if (!are_wanted(problem)) return 0;
    return static_cast<std::size_t>(problem.rows + problem.cols + 2 * factors(problem)) *
           sizeof(float);
  }

  LineFactors find(const QuantizeArgs& args, int threads, InstructionSet instructions) const {
    if (!problem_.given_scales) find_maxima(args, threads, instructions);
    LineFactors result;
    if (problem_.block) result.out = factors_of(args.out, false, out_);
    if (problem_.transposed_block) {
      result.transposed = factors_of(args.transposed, true, transposed_);
    }
    // One set of factors for both copies shows the kernels that their values are the same.
    const bool same = result.out != nullptr && result.transposed != nullptr &&
                      !problem_.given_scales &&
                      whole_form(*problem_.block, false)->axis ==
                          whole_form(*problem_.transposed_block, true)->axis;
    if (same) result.transposed = result.out;
    return result;
  }

 private:
  static std::int64_t factors(const QuantizeProblem& problem) {
    return std::max({problem.rows, problem.cols, kBlock});
  }

  void find_maxima(const QuantizeArgs& args, int threads, InstructionSet instructions) const {
    const FindTileAmax find_tile_amax = amax_kernel(instructions, problem_.input_dtype);
    std::fill(row_max_, row_max_ + problem_.rows + problem_.cols, 0);
    const QuantizeProblem reading = without_copies(problem_);
    const TileRows rows(reading, args);
    parallel_for(threads, rows.count(), [&](std::int64_t index) {
      const TileRow row = rows.at(index);
      float of_rows[kBlock];
      float of_columns[kBlock];
      for (std::int64_t i = 0; i < ceil_div(problem_.cols, kBlock); ++i) {
        const Tile tile = tile_at(reading, row, i);
        find_tile_amax(tile, of_rows, of_columns);
        for (int r = 0; r < tile.rows; ++r) raise(row_max_[index * kBlock + r], of_rows[r]);
        for (int c = 0; c < tile.cols; ++c) raise(column_max_[i * kBlock + c], of_columns[c]);
      }
    });
  }

  // Magnitudes are ordered as their bits; the maximum does not depend on the order of threads.
  static void raise(std::uint32_t& most, float magnitude) {
    const std::atomic_ref<std::uint32_t> shared(most);
    const std::uint32_t bits = bits_of(magnitude);
    std::uint32_t seen = shared.load(std::memory_order_relaxed);
    while (seen < bits && !shared.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
    }
  }

  // Writes the scales of a copy, or reads those that are given. Null for blocks of 128.
  const float* factors_of(const QuantizedView& copy, bool is_transposed, float* to) const {
    const auto form = whole_form(copy.block, is_transposed);
    if (!form) return nullptr;
    const float limit = fp8_format(problem_.format).limit;
    const std::int64_t lines = copy.scales.shape[0] * copy.scales.shape[1];
    const std::int64_t step = copy.scales.strides[copy.block == kEachColumn ? 1 : 0];
    auto* scales = static_cast<float*>(copy.scales.data);
    for (std::int64_t i = 0; i < lines; ++i) {
      float& scale = scales[i * step];
      if (problem_.given_scales) {
        to[i] = 1 / scale;
        continue;
      }
      const BlockScale found = block_scale(f32_from_bits(maximum(form->axis, i)), limit,
                                           problem_.amax_floor, problem_.pow2_scales);
      scale = found.inverse;
      to[i] = found.forward;
    }
    if (form->axis == LineAxis::tensor) std::fill_n(to, kBlock, to[0]);
    return to;
  }

  std::uint32_t maximum(LineAxis axis, std::int64_t line) const {
    if (axis == LineAxis::row) return row_max_[line];
    if (axis == LineAxis::column) return column_max_[line];
    return *std::max_element(row_max_, row_max_ + problem_.rows);
  }

  const QuantizeProblem& problem_;
  std::uint32_t* row_max_;
  std::uint32_t* column_max_;
  float* out_;
  float* transposed_;
};

// Writes the scales of the whole rows of a strip that begins with row `row`, and finds their factors.
void find_row_factors(const QuantizeProblem& problem, const TileRow& strip, std::int64_t row,
                      const TensorView& scales, InstructionSet instructions,
                      float (&factors)[kBlock]) {
  const QuantizeProblem reading = without_copies(problem);
  const FindTileAmax find_tile_amax = amax_kernel(instructions, problem.input_dtype);
  float most[kBlock] = {};
  float of_rows[kBlock];
  float of_columns[kBlock];
  for (std::int64_t i = 0; i < ceil_div(problem.cols, kBlock); ++i) {
    find_tile_amax(tile_at(reading, strip, i), of_rows, of_columns);
    for (int r = 0; r < strip.rows; ++r) most[r] = std::max(most[r], of_rows[r]);
  }
  const float limit = fp8_format(problem.format).limit;
  auto* to = static_cast<float*>(scales.data);
  for (int r = 0; r < strip.rows; ++r) {
    const BlockScale scale = block_scale(most[r], limit, problem.amax_floor, problem.pow2_scales);
    to[(row + r) * scales.strides[0]] = scale.inverse;
    factors[r] = scale.forward;
  }
}

// Scales that are given stay as they are, with their padding.
void clear_copy_padding(const QuantizeProblem& problem, const QuantizedView& copy) {
  if (!problem.given_scales) return clear_padding(copy);
  if (copy.owns_padding) fill_gaps(copy.values, value_lines(copy.values), std::uint8_t{0});
}

}  // namespace

void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context, InstructionSet instructions) {
  LineFactors factors;
  if (WholeLines::are_wanted(problem)) {
    factors = WholeLines(problem, context.workspace).find(args, context.threads, instructions);
  }
  const TileRows rows(problem, args, factors);
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
  if (problem.block) clear_copy_padding(problem, args.out);
  if (problem.transposed_block) clear_copy_padding(problem, args.transposed);
}

void quantize_strip_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                             std::int64_t index, const void* strip, std::int64_t pitch,
                             InstructionSet instructions) {
  TileRow tiles = TileRows(problem, args).at(index);
  tiles.input = static_cast<const std::uint8_t*>(strip);
  tiles.pitch = pitch;
  float factors[kBlock];
  if (problem.block == kEachRow) {
    find_row_factors(problem, tiles, index * kBlock, args.out.scales, instructions, factors);
    tiles.out.first.forward = factors;
  }
  quantize_row(problem, tiles, 0, ceil_div(problem.cols, kBlock), instructions);
}

constinit const QuantizeImplementation kQuantizeCpuSimd{
    "cpu_simd",
    [](const QuantizeProblem& problem, const Machine& machine) -> std::string {
      for (const auto& block : {problem.block, problem.transposed_block}) {
        if (block && is_mx(*block)) return "mx blocks are cast by cpu_reference";
        if (block && problem.given_scales && !whole_form(*block, false)) {
          return "given scales of blocks of 128 are read by cpu_reference";
        }
      }
      return refuse_off_simd(problem.device, machine);
    },
    [](const QuantizeProblem& problem, const Machine& machine) {
      return planned_simd<QuantizeArgs>(problem, machine, WholeLines::workspace_bytes(problem),
                                        quantize_cpu_simd);
    }};

}  // namespace octet
