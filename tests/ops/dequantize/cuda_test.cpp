// The Hopper kernels of dequantize against the CPU, in every byte of the output's memory. A NaN may
// have any payload.
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "ops/dequantize/problem.hpp"
#include "support/device_image.hpp"
#include "support/foreign_quantized.hpp"
#include "support/on_cuda.hpp"
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace octet::testing {
namespace {

// A poisoned matrix whose first element and pitch may or may not allow vectors.
struct Output {
  Buffer memory;
  TensorView view;

  Output(const DequantizeProblem& problem, std::int64_t offset, std::int64_t pitch)
      : memory(static_cast<std::size_t>((problem.rows * pitch + offset + 16) *
                                        size_bytes(problem.out_dtype))) {
    std::memset(memory.data(), 0xA5, memory.bytes());
    view = make_matrix(
        static_cast<std::uint8_t*>(memory.data()) + offset * size_bytes(problem.out_dtype),
        problem.out_dtype, problem.rows, problem.cols, pitch);
  }
};

void expect_same_bytes(const Output& wanted, std::vector<std::uint8_t> given,
                       const std::string& repeat) {
  const Dtype dtype = wanted.view.dtype;
  const std::int64_t first = static_cast<const std::uint8_t*>(wanted.view.data) -
                             static_cast<const std::uint8_t*>(wanted.memory.data());
  ASSERT_EQ(given.size(), wanted.memory.bytes());
  // NaN for NaN is what is asked for; then the bytes are compared.
  for (std::int64_t r = 0; r < wanted.view.rows(); ++r) {
    for (std::int64_t c = 0; c < wanted.view.cols(); ++c) {
      const std::int64_t at = r * wanted.view.strides[0] + c;
      if (!std::isnan(load_f32(wanted.view.data, at, dtype))) continue;
      ASSERT_TRUE(std::isnan(load_f32(given.data() + first, at, dtype)))
          << "[" << r << ", " << c << "]: " << repeat;
      const std::int64_t byte = at * size_bytes(dtype);
      std::memcpy(given.data() + first + byte,
                  static_cast<const std::uint8_t*>(wanted.view.data) + byte,
                  static_cast<std::size_t>(size_bytes(dtype)));
    }
  }
  const auto* const bytes = static_cast<const std::uint8_t*>(wanted.memory.data());
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_EQ(given[i], bytes[i]) << "byte " << i << ", elements from " << first << ": " << repeat;
  }
}

void expect_like_cpu(DequantizeProblem problem, const ForeignQuantized& input, const Output& out,
                     const std::string& what) {
  const DeviceImage in_image(input.memory().data(), input.memory().bytes());
  const DeviceImage out_image(out.memory.data(), out.memory.bytes());  // still poisoned
  run(plan_dequantize(problem), {input.view(), out.view});
  problem.device = DeviceImage::kDevice;
  QuantizedView values = input.view();
  values.values = in_image.at(values.values);
  values.scales = in_image.at(values.scales);
  const DequantizePlan plan = plan_dequantize(problem);
  EXPECT_EQ(plan.implementation, "cuda_sm90_vectors");
  run(plan, {values, out_image.at(out.view)});
  cuda::synchronize(0);
  expect_same_bytes(out, out_image.download(), what + ": octet check " + describe(problem));
}

TEST(DequantizeCuda, EqualsTheCpuOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    const std::int64_t rows = any_of({1, 2, 31, 32, 33, 64, 129, 300}, random);
    const std::int64_t cols = any_of({1, 7, 8, 9, 16, 127, 128, 255, 256, 257, 600}, random);
    const DequantizeProblem problem{rows,
                                    cols,
                                    any_of({Dtype::e4m3, Dtype::e5m2}, random),
                                    any_of(kAllBlocks, random),
                                    any_of({Dtype::f32, Dtype::f16, Dtype::bf16}, random),
                                    kCpu};
    // Aligned rows, other rows, and what is transposed or has gaps between columns.
    const std::int64_t pitch = round_up(cols, 16) + 16;
    const std::int64_t strides[][3] = {{pitch, 1, 0}, {pitch, 1, 8},    {pitch - 8, 1, 0},
                                       {cols, 1, 3},  {1, rows + 5, 1}, {2 * cols + 1, 2, 0}};
    const auto& [row_stride, col_stride, offset] = strides[random() % 6];
    const ForeignQuantized input(rows, cols, problem.format, problem.block, row_stride, col_stride,
                                 offset);
    input.fill(seed);
    const std::int64_t out_pitch = any_of({cols, round_up(cols, 8), cols + 3}, random);
    expect_like_cpu(problem, input, Output(problem, any_of({0, 0, 8, 1}, random), out_pitch),
                    text("seed ", seed));
    if (HasFatalFailure()) return;
  }
}

// Subnormal products, products beyond the output, zeros of both signs, NaN and infinities.
TEST(DequantizeCuda, EqualsTheCpuForEveryCodeAndMxScale) {
  OCTET_NEEDS_HOPPER();
  for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    const ForeignQuantized input(256, 256, format, kBlock1x32, 256, 1, 0);
    for (std::int64_t i = 0; i < 256; ++i) {
      for (std::int64_t j = 0; j < 256; ++j) {
        input.set_code(i, j, static_cast<std::uint8_t>(j));
        input.set_mx_scale(i, j / 32, static_cast<std::uint8_t>(i));
      }
    }
    for (Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      for (std::int64_t offset : {0, 1}) {  // vectors, and single elements
        const DequantizeProblem problem{256, 256, format, kBlock1x32, out, kCpu};
        expect_like_cpu(problem, input, Output(problem, offset, 256), "every code and scale");
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Many tiles, a ragged last one in both directions.
TEST(DequantizeCuda, EqualsTheCpuOnALargeTensor) {
  OCTET_NEEDS_HOPPER();
  for (BlockShape block : kAllBlocks) {
    const DequantizeProblem problem{4001, 4100, Dtype::e4m3, block, Dtype::bf16, kCpu};
    const ForeignQuantized input(4001, 4100, Dtype::e4m3, block, 4112, 1, 0);
    input.fill(3);
    expect_like_cpu(problem, input, Output(problem, 0, 4104), "large");
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace octet::testing
