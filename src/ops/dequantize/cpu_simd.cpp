// 128x128 tiles, row by row in runs of 128. Rows that are shorter or strided pass through a run on
// the stack. No workspace.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dequantize/cpu_simd.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if OCTET_SIMD_TARGET
#include "ops/dequantize/run_kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

extern const DequantizeKernels kDequantizeKernels;
const DequantizeKernels kDequantizeKernels{
    {dequantize_one_run<DecodeE4m3, EncodeF32>, dequantize_one_run<DecodeE5m2, EncodeF32>},
    {dequantize_one_run<DecodeE4m3, EncodeF16>, dequantize_one_run<DecodeE5m2, EncodeF16>},
    {dequantize_one_run<DecodeE4m3, EncodeBf16>, dequantize_one_run<DecodeE5m2, EncodeBf16>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "core/checks.hpp"
#include "cpu/threads.hpp"
#include "ops/dequantize/cpu_simd.hpp"
#include "ops/dequantize/problem.hpp"

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

// The scales of one row of a tile, one per column.
struct RowScales {
  float values[kBlock];

  void read(const QuantizedView& input, std::int64_t row, std::int64_t col, std::int64_t cols) {
    const TensorView& scales = input.scales;
    const auto* first = static_cast<const float*>(scales.data) +
                        row / input.block.rows * scales.strides[0] +
                        col / input.block.cols * scales.strides[1];
    const std::int64_t step = input.block.cols == 1 ? scales.strides[1] : 0;
    for (std::int64_t c = 0; c < cols; ++c) values[c] = first[c * step];
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
    if (row == row_begin || problem.block.rows == 1) scales.read(args.input, row, col, cols);
    dequantize_row(args, dequantize_run, row, col, cols, scales);
  }
}

void run_simd(const DequantizeProblem& problem, const DequantizeArgs& args,
              const RunContext& context, InstructionSet instructions) {
  dequantize_cpu_simd(problem, args, context.threads, instructions);
}

}  // namespace

void dequantize_cpu_simd(const DequantizeProblem& problem, const DequantizeArgs& args, int threads,
                         InstructionSet instructions) {
  const DequantizeRun dequantize_run =
      run_kernel(instructions == InstructionSet::avx512 ? N_AVX3::kDequantizeKernels
                                                        : N_AVX2::kDequantizeKernels,
                 problem.format, problem.out_dtype);
  const std::int64_t tile_cols = ceil_div(problem.cols, kBlock);
  parallel_for(threads, ceil_div(problem.rows, kBlock) * tile_cols, [&](std::int64_t tile) {
    dequantize_tile(problem, args, dequantize_run, tile / tile_cols * kBlock,
                    tile % tile_cols * kBlock);
  });
}

const DequantizeImplementation kDequantizeCpuSimd{
    "cpu_simd",
    [](const DequantizeProblem& problem, const Machine& machine) {
      const std::string refusal = refuse_off_cpu(problem.device);
      return refusal.empty() ? refuse_without_avx2(machine) : refusal;
    },
    [](const DequantizeProblem& problem, const Machine& machine) {
      return planned_simd<DequantizeArgs>(problem, machine, 0, run_simd);
    },
};

}  // namespace octet
#endif
