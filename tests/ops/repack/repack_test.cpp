// repack keeps every value and scale, clears the padding it owns, and makes foreign views usable by
// gemm.
#include "ops/quantize/paths.hpp"
#include "ops/repack/problem.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace octet {
namespace {

// FP8 with arbitrary strides at an odd address, with matching scales.
struct Foreign {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  QuantizedView view;

  Foreign(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block,
          std::int64_t row_stride, std::int64_t col_stride)
      : values(static_cast<std::size_t>(3 + rows * row_stride + cols * col_stride)) {
    std::mt19937 random(1);
    for (std::uint8_t& value : values) {  // finite in both formats
      value = static_cast<std::uint8_t>((random() & 0x80u) | random() % 0x70u);
    }
    const std::int64_t scale_rows = ceil_div(rows, block.rows);
    const std::int64_t scale_cols = ceil_div(cols, block.cols);
    scales.resize(static_cast<std::size_t>(scale_rows * scale_cols * 3));
    for (float& scale : scales) scale = 0.5f + static_cast<float>(random() % 1000) / 1000;
    view = QuantizedView(make_matrix(values.data() + 3, dtype, rows, cols, row_stride),
                         make_matrix(scales.data(), Dtype::f32, scale_rows, scale_cols, 3), block);
    view.values.strides[1] = col_stride;
    view.scales.strides[1] = 3 * scale_rows;
  }
};

std::uint8_t code(const QuantizedView& view, std::int64_t r, std::int64_t c) {
  return static_cast<const std::uint8_t*>(
      view.values.data)[r * view.values.strides[0] + c * view.values.strides[1]];
}

float scale(const QuantizedView& view, std::int64_t r, std::int64_t c) {
  return static_cast<const float*>(
      view.scales.data)[r * view.scales.strides[0] + c * view.scales.strides[1]];
}

void expect_repacked(const QuantizedView& input, const QuantizedView& out,
                     const std::string& repeat) {
  for (std::int64_t r = 0; r < input.values.rows(); ++r) {
    for (std::int64_t c = 0; c < input.values.cols(); ++c) {
      ASSERT_EQ(code(out, r, c), code(input, r, c)) << r << ", " << c << ": " << repeat;
    }
  }
  for (std::int64_t r = 0; r < input.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < input.scales.cols(); ++c) {
      ASSERT_EQ(scale(out, r, c), scale(input, r, c)) << r << ", " << c << ": " << repeat;
    }
  }
}

TEST(Repack, KeepsEveryValueAndScaleOfAnyLayout) {
  for (std::int64_t rows : {1, 130}) {
    for (std::int64_t cols : {1, 127, 300}) {
      const std::int64_t strides[][2] = {{cols, 1}, {cols + 7, 1}, {1, rows}, {2 * cols, 2}};
      for (const auto& stride : strides) {
        for (BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128}) {
          const RepackProblem problem{rows, cols, Dtype::e5m2, block, kCpu};
          const Foreign input(rows, cols, problem.format, block, stride[0], stride[1]);
          const QuantizedTensor out(rows, cols, problem.format, block);
          run(plan_repack(problem, {"", 3}), {input.view, out});
          expect_repacked(input.view, out, describe(problem));
        }
      }
    }
  }
}

TEST(Repack, ClearsThePaddingItOwnsAndNoOther) {
  const RepackProblem problem{130, 200, Dtype::e4m3, kBlock128x128, kCpu};
  const Foreign input(130, 200, Dtype::e4m3, kBlock128x128, 203, 1);
  const QuantizedLayout layout(130, 200, Dtype::e4m3, kBlock128x128);
  for (bool owns_padding : {true, false}) {
    Buffer memory(layout.bytes + 512);
    std::memset(memory.data(), 0xA5, memory.bytes());
    auto* bytes = static_cast<std::uint8_t*>(memory.data());
    QuantizedView out = layout.view(bytes + 256);
    out.owns_padding = owns_padding;
    run(plan_repack(problem), {input.view, out});
    expect_repacked(input.view, out, describe(problem));
    for (std::int64_t r = 0; r < 130; ++r) {
      for (std::int64_t c = 200; c < 256; ++c) {
        ASSERT_EQ(code(out, r, c), owns_padding ? 0 : 0xA5) << r << ", " << c;
      }
    }
    for (std::int64_t r = 0; r < 2; ++r) {
      const float padding = owns_padding ? 1.0f : f32_from_bits(0xA5A5A5A5u);
      EXPECT_EQ(scale(out, r, 2), padding);
      EXPECT_EQ(scale(out, r, 3), padding);
    }
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(bytes[i], 0xA5);
      ASSERT_EQ(bytes[256 + layout.bytes + i], 0xA5);
    }
  }
}

// gemm refuses a foreign operand, and the way out that it suggests works.
TEST(Repack, MakesAForeignViewFitForGemm) {
  const Foreign a(5, 200, Dtype::e4m3, kBlock1x128, 201, 1);
  const QuantizedTensor b(3, 200, Dtype::e4m3, kBlock128x128);
  for (std::int64_t r = 0; r < 3; ++r) {
    std::memset(static_cast<std::uint8_t*>(b.view().values.data) + r * 256, 0x38, 200);  // 1.0
  }
  for (std::int64_t i = 0; i < 2; ++i) static_cast<float*>(b.view().scales.data)[i] = 1;
  const Tensor d(Dtype::f32, {5, 3});
  GemmProblem problem{.m = 5, .n = 3, .k = 200, .out_dtype = Dtype::f32};
  const GemmPlan gemm = plan_gemm(problem);
  const Buffer memory(gemm.workspace_bytes);
  const Workspace workspace{memory.data(), memory.bytes()};
  try {
    run(gemm, {a.view, b, d}, workspace);
    FAIL() << "gemm took a misaligned operand";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("repack"), std::string::npos) << error.what();
  }
  const QuantizedTensor packed(5, 200, Dtype::e4m3, kBlock1x128);
  run(plan_repack({5, 200, Dtype::e4m3, kBlock1x128, kCpu}), {a.view, packed});
  run(gemm, {packed, b, d}, workspace);
  for (std::int64_t r = 0; r < 5; ++r) {
    double wanted = 0;
    double magnitude = 0;
    for (std::int64_t k = 0; k < 200; ++k) {
      const double value = f32_from_e4m3(code(a.view, r, k)) * scale(a.view, r, k / kBlock);
      wanted += value;
      magnitude += std::fabs(value);
    }
    EXPECT_NEAR(static_cast<const float*>(d.data())[r * 3], wanted, magnitude * 0x1p-20);
  }
}

TEST(RepackThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const RepackProblem problem{700, 500, Dtype::e4m3, kBlock1x128, kCpu};
  const Foreign input(700, 500, Dtype::e4m3, kBlock1x128, 1, 701);
  for (int threads : {1, 2, 3, 7}) {
    const QuantizedTensor out(700, 500, Dtype::e4m3, kBlock1x128);
    run(plan_repack(problem, {"", threads}), {input.view, out});
    expect_repacked(input.view, out, text(threads, " threads: ", describe(problem)));
  }
}

TEST(RepackRefuses, WhatItCannotMean) {
  EXPECT_EQ(refusal([] {
              plan_repack({4, 0, Dtype::e4m3, kBlock1x128, kCpu});
            }),
            "repack: cols must be at least 1, got 0");
  EXPECT_EQ(refusal([] {
              plan_repack({4, 4, Dtype::bf16, kBlock1x128, kCpu});
            }),
            "repack: format must be e4m3 or e5m2, got bf16");
  const RepackPlan plan = plan_repack({4, 200, Dtype::e4m3, kBlock1x128, kCpu});
  const Foreign input(4, 200, Dtype::e4m3, kBlock1x128, 200, 1);
  EXPECT_EQ(refusal([&] {
              run(plan, {input.view, input.view});
            }).substr(0, 53),
            "repack: rows of out must start on 16-byte boundaries,");
  const QuantizedTensor out(4, 200, Dtype::e4m3, kBlock1x128);
  EXPECT_EQ(refusal([&] {
              run(plan, {out, out});
            }),
            "repack: output out overlaps input: their memory must be apart");
}

}  // namespace
}  // namespace octet
