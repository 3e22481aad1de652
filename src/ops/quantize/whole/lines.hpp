// Scales that belong to lines of the input: to a row, a column or all of it, over the whole matrix or
// over 128 elements. Host and device.
#pragma once

#include "core/numeric.hpp"

#include <octet/ops/quantize.hpp>

#include <optional>

namespace octet {

// What elements with one scale share, in the coordinates of the input.
enum class LineAxis { row, column, tensor };
// Whole: from a first pass over the input. Tile: from 128 elements of the line. Given: read.
enum class LineScales { whole, tile, given };

struct LineForm {
  LineAxis axis = LineAxis::row;
  LineScales scales = LineScales::whole;
};

// Empty for blocks that are no lines.
constexpr std::optional<LineForm> line_form(BlockShape block, bool is_transposed, bool given) {
  const LineAxis along = is_transposed ? LineAxis::column : LineAxis::row;   // rows of the copy
  const LineAxis across = is_transposed ? LineAxis::row : LineAxis::column;  // columns of the copy
  const auto form = [given](LineAxis axis, LineScales scales) {
    return LineForm{axis, given ? LineScales::given : scales};
  };
  if (block == kEachRow) return form(along, LineScales::whole);
  if (block == kEachColumn) return form(across, LineScales::whole);
  if (block == kWholeTensor) return form(LineAxis::tensor, LineScales::whole);
  if (block == kBlock1x128) return form(along, LineScales::tile);
  if (block == kBlock128x1) return form(across, LineScales::tile);
  return std::nullopt;
}

// The maxima of the first pass in the workspace, as the bits of the input's magnitudes: of the rows,
// of the columns and of the tensor, of those that are wanted.
struct LineMaxima {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t tensors = 0;  // 0 or 1

  constexpr void want(const LineForm& form, std::int64_t all_rows, std::int64_t all_cols) {
    if (form.scales != LineScales::whole) return;
    if (form.axis == LineAxis::row) rows = all_rows;
    if (form.axis == LineAxis::column) cols = all_cols;
    if (form.axis == LineAxis::tensor) tensors = 1;
  }
  constexpr std::int64_t offset(LineAxis axis) const {
    return axis == LineAxis::row ? 0 : axis == LineAxis::column ? rows : rows + cols;
  }
  constexpr std::int64_t words() const { return rows + cols + tensors; }
};

constexpr LineMaxima line_maxima(const QuantizeProblem& problem) {
  LineMaxima maxima;
  const auto want = [&](const std::optional<BlockShape>& block, bool is_transposed) {
    if (!block) return;
    if (const auto form = line_form(*block, is_transposed, problem.given_scales)) {
      maxima.want(*form, problem.rows, problem.cols);
    }
  };
  want(problem.block, false);
  want(problem.transposed_block, true);
  return maxima;
}

// A row copy with scales of whole rows, and nothing else, takes one pass where a block of threads
// holds a row: 256 threads with 1, 2, 4 or 8 vectors of 8 elements. 0: two passes. Shorter rows would
// leave most threads idle.
inline constexpr int kRowThreads = 256;
inline constexpr int kRowVector = 8;
inline constexpr std::int64_t kShortestRow = 1024;

constexpr int vectors_of_a_row(const QuantizeProblem& problem) {
  if (problem.block != kEachRow || problem.transposed_block || problem.given_scales) return 0;
  if (problem.cols < kShortestRow || problem.rows > 0x7FFFFFFF) return 0;
  for (int vectors = 1; vectors <= 8; vectors *= 2) {
    if (problem.cols <= std::int64_t{vectors} * kRowThreads * kRowVector) return vectors;
  }
  return 0;
}

}  // namespace octet
