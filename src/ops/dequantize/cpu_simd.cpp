// 128x128 tiles, row by row in runs of 128. Rows that are shorter or strided pass through a run on
// the stack. No workspace.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dequantize/cpu_simd.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/dequantize/problem.hpp"

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

template <class Decode, class Encode>
void dequantize_one_run(const std::uint8_t* codes, const float* scales, void* out) {
  const std::size_t lanes = hn::Lanes(F32());
  auto* to = static_cast<typename Encode::Storage*>(out);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kBlock); i += 2 * lanes) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Decode::load(codes + i, low, high);
    Encode::store(hn::Mul(low, hn::LoadU(F32(), scales + i)), to + i);
    Encode::store(hn::Mul(high, hn::LoadU(F32(), scales + i + lanes)), to + i + lanes);
  }
}

// By dtype of the output, f32, f16, bf16, and by format, e4m3, e5m2.
extern const DequantizeRun kDequantizeRun[3][2];
const DequantizeRun kDequantizeRun[3][2] = {
    {dequantize_one_run<DecodeE4m3, EncodeF32>, dequantize_one_run<DecodeE5m2, EncodeF32>},
    {dequantize_one_run<DecodeE4m3, EncodeF16>, dequantize_one_run<DecodeE5m2, EncodeF16>},
    {dequantize_one_run<DecodeE4m3, EncodeBf16>, dequantize_one_run<DecodeE5m2, EncodeBf16>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "core/block_scales.hpp"
#include "core/checks.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

// The scales of one row of a tile, one per column.
struct RowScales {
  float values[kBlock];

  void read(const QuantizedView& input, std::int64_t row, std::int64_t col, std::int64_t cols) {
    const std::int64_t run =  // columns of the tile that share a scale
        input.block.cols == kAll ? cols : std::min(input.block.cols, cols);
    for (std::int64_t c = 0; c < cols; c += run) {
      std::fill(values + c, values + std::min(c + run, cols), scale_of(input, row, col + c));
    }
  }
};

void dequantize_row(const DequantizeArgs& args, DequantizeRun dequantize_run, std::int64_t row,
                    std::int64_t col, std::int64_t cols, const RowScales& scales) {
  const TensorView& values = args.input.values;
  const std::int64_t element_bytes = size_bytes(args.out.dtype);
  const auto* codes = static_cast<const std::uint8_t*>(values.data) + row * values.strides[0] +
                      col * values.strides[1];
  auto* out =
      static_cast<std::uint8_t*>(args.out.data) + (row * args.out.strides[0] + col) * element_bytes;
  if (cols == kBlock && values.strides[1] == 1) {
    dequantize_run(codes, scales.values, out);
    return;
  }
  std::uint8_t run[kBlock] = {};
  alignas(64) std::uint8_t result[kBlock * sizeof(float)];
  for (std::int64_t c = 0; c < cols; ++c) run[c] = codes[c * values.strides[1]];
  dequantize_run(run, scales.values, result);
  std::memcpy(out, result, static_cast<std::size_t>(cols * element_bytes));
}

void dequantize_tile(const DequantizeProblem& problem, const DequantizeArgs& args,
                     DequantizeRun dequantize_run, std::int64_t row_begin, std::int64_t col) {
  const std::int64_t row_end = std::min(row_begin + kBlock, problem.rows);
  const std::int64_t cols = std::min(kBlock, problem.cols - col);
  RowScales scales{};
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const bool begins_block = problem.block.rows != kAll && row % problem.block.rows == 0;
    if (row == row_begin || begins_block) scales.read(args.input, row, col, cols);
    dequantize_row(args, dequantize_run, row, col, cols, scales);
  }
}

}  // namespace

void dequantize_cpu_simd(const DequantizeProblem& problem, const DequantizeArgs& args,
                         const RunContext& context, InstructionSet instructions) {
  const auto& kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kDequantizeRun : N_AVX2::kDequantizeRun;
  const DequantizeRun dequantize_run =
      kernels[kernel_index(problem.out_dtype)][problem.format == Dtype::e5m2 ? 1 : 0];
  const std::int64_t tile_cols = ceil_div(problem.cols, kBlock);
  parallel_for(context.threads, ceil_div(problem.rows, kBlock) * tile_cols, [&](std::int64_t tile) {
    dequantize_tile(problem, args, dequantize_run, tile / tile_cols * kBlock,
                    tile % tile_cols * kBlock);
  });
}

constinit const DequantizeImplementation kDequantizeCpuSimd =
    cpu_simd<DequantizeProblem, DequantizeArgs, dequantize_cpu_simd>();

}  // namespace octet
#endif
