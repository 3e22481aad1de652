// Each block on its own: find its largest finite magnitude, derive the scale, cast its elements.
#include "core/numeric.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/quantize/scale.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

// A matrix seen as the copy sees it: transposed or not.
struct Source {
  const void* data;
  Dtype dtype;
  std::int64_t row_stride;
  std::int64_t col_stride;

  float at(std::int64_t row, std::int64_t col) const {
    return load_f32(data, row * row_stride + col * col_stride, dtype);
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
  clear_padding(out);
}

void run_reference(const QuantizeProblem& problem, const QuantizeArgs& args,
                   const RunContext& context) {
  const std::int64_t pitch = args.input.strides[0];
  if (problem.block) {
    quantize_copy({args.input.data, problem.input_dtype, pitch, 1}, args.out, problem,
                  context.threads);
  }
  if (problem.transposed_block) {
    quantize_copy({args.input.data, problem.input_dtype, 1, pitch}, args.transposed, problem,
                  context.threads);
  }
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCpuReference =
    cpu_reference<QuantizeProblem, QuantizeArgs, run_reference>();

}  // namespace octet
