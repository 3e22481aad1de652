// Each block on its own: find its largest finite magnitude, derive the scale, cast its elements.
// Blocks may be a whole row, column or tensor; folded ones have mx blocks inside.
#include "core/numeric.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/quantize/mx_scale.hpp"
#include "ops/quantize/scale.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace octet {
namespace {

// The input as a copy sees it: from `first_row` on, transposed or not.
struct Source {
  const TensorView& input;  // [rows, cols]
  bool transposed;
  std::int64_t first_row = 0;
  const std::int32_t* gathered = nullptr;  // row r is input row gathered[r] / slots; null: row r
  std::int64_t slots = 1;

  float at(std::int64_t row, std::int64_t col) const {
    const std::int64_t r = first_row + (transposed ? col : row);
    const std::int64_t input_row = gathered != nullptr ? gathered[r] / slots : r;
    return load_f32(input.data, input_row * input.strides[0] + (transposed ? row : col),
                    input.dtype);
  }
};

// The elements of a copy that share a scale.
struct Range {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;

  Range(std::int64_t row, std::int64_t col, BlockShape block, std::int64_t rows, std::int64_t cols)
      : row_begin(row),
        row_end(block.rows == kAll ? rows : std::min(row + block.rows, rows)),
        col_begin(col),
        col_end(block.cols == kAll ? cols : std::min(col + block.cols, cols)) {}
};

float largest_finite(const Source& source, const Range& range) {
  float amax = 0;
  for (std::int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (std::int64_t c = range.col_begin; c < range.col_end; ++c) {
      const float magnitude = std::fabs(source.at(r, c));
      if (std::isfinite(magnitude)) amax = std::max(amax, magnitude);
    }
  }
  return amax;
}

void cast(const Source& source, const Range& range, float forward, const Fp8Format& format,
          const TensorView& values) {
  auto* codes = static_cast<std::uint8_t*>(values.data);
  for (std::int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (std::int64_t c = range.col_begin; c < range.col_end; ++c) {
      const float x = source.at(r, c);
      // Non-finite values are recognised before the product, which could overflow a finite one.
      const float scaled =
          std::isfinite(x) ? std::clamp(x * forward, -format.limit, format.limit) : x;
      codes[r * values.strides[0] + c] = fp8_from_f32(scaled, format);
    }
  }
}

// Multiplies finite codes by `factor`, a power of two of at most 1.
void shrink(const Range& range, float factor, const Fp8Format& format, const TensorView& values) {
  for (std::int64_t r = range.row_begin; r < range.row_end; ++r) {
    for (std::int64_t c = range.col_begin; c < range.col_end; ++c) {
      const std::int64_t at = r * values.strides[0] + c;
      const float value = load_f32(values.data, at, values.dtype) * factor;
      static_cast<std::uint8_t*>(values.data)[at] = fp8_from_f32(value, format);
    }
  }
}

// The mx blocks that are folded into one block of 128: casts each by itself, then shrinks its values
// to the largest of the scales, which it returns.
float fold_mx_blocks(const Source& source, const Range& range, const QuantizedView& out,
                     const MxRule& rule, const Fp8Format& format) {
  struct MxBlock {
    Range range;
    int exponent;
  };
  const BlockShape shape = out.block == kBlock1x128 ? kBlock1x32 : kBlock32x32;
  std::vector<MxBlock> blocks;
  int largest = -kMxBias;
  for (std::int64_t r = range.row_begin; r < range.row_end; r += shape.rows) {
    for (std::int64_t c = range.col_begin; c < range.col_end; c += shape.cols) {
      const Range part(r, c, shape, range.row_end, range.col_end);
      blocks.push_back({part, mx_exponent(largest_finite(source, part), rule)});
      largest = std::max(largest, blocks.back().exponent);
    }
  }
  for (const MxBlock& block : blocks) {
    cast(source, block.range, power_of_two(-block.exponent), format, out.values);
    // Below 2^-126 every value of the formats rounds to zero.
    const int shift = std::max(block.exponent - largest, -126);
    if (shift != 0) shrink(block.range, power_of_two(shift), format, out.values);
  }
  return power_of_two(largest);
}

void quantize_block(const Source& source, const QuantizedView& out, const QuantizeProblem& problem,
                    std::int64_t block_row, std::int64_t block_col) {
  const Range range(out.block.rows == kAll ? 0 : block_row * out.block.rows,
                    out.block.cols == kAll ? 0 : block_col * out.block.cols, out.block,
                    out.values.rows(), out.values.cols());
  const Fp8Format& format = fp8_format(problem.format);
  const MxRule rule = mx_rule(problem.mx_scale, format);
  const std::int64_t at = block_row * out.scales.strides[0] + block_col * out.scales.strides[1];
  auto* scales = static_cast<float*>(out.scales.data);
  if (problem.given_scales) {
    cast(source, range, 1 / scales[at], format, out.values);
  } else if (is_mx(out.block)) {
    const int exponent = mx_exponent(largest_finite(source, range), rule);
    static_cast<std::uint8_t*>(out.scales.data)[at] = static_cast<std::uint8_t>(exponent + kMxBias);
    cast(source, range, power_of_two(-exponent), format, out.values);
  } else if (problem.fold_mx) {
    scales[at] = fold_mx_blocks(source, range, out, rule, format);
  } else {
    const BlockScale scale = block_scale(largest_finite(source, range), format.limit,
                                         problem.amax_floor, problem.pow2_scales);
    scales[at] = scale.inverse;
    cast(source, range, scale.forward, format, out.values);
  }
}

void quantize_copy(const Source& source, const QuantizedView& out, const QuantizeProblem& problem,
                   int threads) {
  const std::int64_t block_rows = out.scales.rows();
  const std::int64_t block_cols = out.scales.cols();
  if (block_rows == 1) {  // columns are what there is to share
    parallel_for(threads, block_cols,
                 [&](std::int64_t col) { quantize_block(source, out, problem, 0, col); });
    return;
  }
  parallel_for(threads, block_rows, [&](std::int64_t block_row) {
    for (std::int64_t block_col = 0; block_col < block_cols; ++block_col) {
      quantize_block(source, out, problem, block_row, block_col);
    }
  });
}

void quantize_matrix(const QuantizeProblem& problem, const QuantizeArgs& args, int threads) {
  if (problem.block) quantize_copy({args.input, false}, args.out, problem, threads);
  if (problem.transposed_block) {
    quantize_copy({args.input, true}, args.transposed, problem, threads);
  }
}

// Up to 128 rows of one group as a transposed matrix of 128 columns.
void quantize_token_block(const Source& source, QuantizedView out, std::int64_t rows,
                          const QuantizeProblem& problem, int threads) {
  for (std::int64_t r = 0; r < out.values.rows(); ++r) {
    auto* row = static_cast<std::uint8_t*>(out.values.data) + r * out.values.strides[0];
    std::fill(row + rows, row + kBlock, std::uint8_t{0});
  }
  out.values.shape[1] = rows;
  quantize_copy(source, out, problem, threads);
}

void quantize_groups(const QuantizeProblem& problem, const QuantizeArgs& args, int threads) {
  const GroupRows groups("quantize", args.table, problem.groups, problem.rows);
  const auto* gathered =
      problem.source_rows > 0 ? static_cast<const std::int32_t*>(args.source.data) : nullptr;
  const std::int64_t slots = slots_per_row(problem);
  if (problem.block) {
    const std::int64_t rows = groups.grouped_rows();
    const QuantizedView grouped{rows_of(args.out.values, 0, rows),
                                rows_of(args.out.scales, 0, rows), args.out.block};
    quantize_copy({args.input, false, 0, gathered, slots}, grouped, problem, threads);
    if (problem.tail == GroupTail::zero) clear_rows(args.out, rows, threads);
  }
  if (!problem.transposed_block) return;
  for (std::int64_t block = 0; block < groups.token_blocks(); ++block) {
    const std::int64_t group = groups.group_of(block);
    const std::int64_t row = groups.begin(group) + (block - groups.first_block(group)) * kBlock;
    quantize_token_block({args.input, true, row, gathered, slots},
                         matrix_of(args.transposed, block),
                         std::min(kBlock, groups.end(group) - row), problem, threads);
  }
}

// Scales that are given stay as they are, with their padding.
void clear_padding(const QuantizeProblem& problem, const QuantizedView& copy) {
  if (!problem.given_scales) return clear_padding(copy);
  if (copy.owns_padding) fill_gaps(copy.values, value_lines(copy.values), std::uint8_t{0});
}

void run_reference(const QuantizeProblem& problem, const QuantizeArgs& args,
                   const RunContext& context) {
  if (problem.groups > 0) {
    quantize_groups(problem, args, context.threads);
  } else if (problem.batch > 0) {
    for (std::int64_t i = 0; i < problem.batch; ++i) {
      quantize_matrix(problem, matrix_of(problem, args, i), context.threads);
    }
  } else {
    quantize_matrix(problem, args, context.threads);
  }
  if (problem.block) clear_padding(problem, args.out);
  if (problem.transposed_block) clear_padding(problem, args.transposed);
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCpuReference =
    cpu_reference<QuantizeProblem, QuantizeArgs, run_reference>();

}  // namespace octet
