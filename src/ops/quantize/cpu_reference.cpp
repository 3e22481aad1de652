// Each block on its own: find its largest finite magnitude, derive the scale, cast its elements.
#include "core/numeric.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/quantize/scale.hpp"

#include <algorithm>
#include <cmath>

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

void quantize_block(const Source& source, const QuantizedView& out, const QuantizeProblem& problem,
                    std::int64_t block_row, std::int64_t block_col) {
  const std::int64_t row_begin = block_row * out.block.rows;
  const std::int64_t col_begin = block_col * out.block.cols;
  const std::int64_t row_end = std::min(row_begin + out.block.rows, out.values.rows());
  const std::int64_t col_end = std::min(col_begin + out.block.cols, out.values.cols());

  float amax = 0;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t c = col_begin; c < col_end; ++c) {
      const float magnitude = std::fabs(source.at(r, c));
      if (std::isfinite(magnitude)) amax = std::max(amax, magnitude);
    }
  }

  const Fp8Format& format = fp8_format(problem.format);
  const BlockScale scale = block_scale(amax, format.limit, problem.amax_floor, problem.pow2_scales);
  auto* values = static_cast<std::uint8_t*>(out.values.data);
  auto* scales = static_cast<float*>(out.scales.data);
  scales[block_row * out.scales.strides[0] + block_col * out.scales.strides[1]] = scale.inverse;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t c = col_begin; c < col_end; ++c) {
      const float x = source.at(r, c);
      // Non-finite values are recognised before the product, which could overflow a finite one.
      values[r * out.values.strides[0] + c] =
          fp8_from_f32(std::isfinite(x) ? x * scale.forward : x, format);
    }
  }
}

void quantize_copy(const Source& source, const QuantizedView& out, const QuantizeProblem& problem,
                   int threads) {
  const std::int64_t block_cols = out.scales.cols();
  parallel_for(threads, out.scales.rows(), [&](std::int64_t block_row) {
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
  if (problem.block) clear_padding(args.out);
  if (problem.transposed_block) clear_padding(args.transposed);
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCpuReference =
    cpu_reference<QuantizeProblem, QuantizeArgs, run_reference>();

}  // namespace octet
