// repack keeps every value and scale, clears the padding it owns, and makes foreign views usable by
// gemm.
#include "ops/quantize/paths.hpp"
#include "ops/repack/problem.hpp"
#include "support/foreign_quantized.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace octet {
namespace {

using testing::block_scale_number;
using testing::code_of;
using testing::ForeignQuantized;
using testing::kAllBlocks;

void expect_repacked(const QuantizedView& input, const QuantizedView& out,
                     const std::string& repeat) {
  for (std::int64_t r = 0; r < input.values.rows(); ++r) {
    for (std::int64_t c = 0; c < input.values.cols(); ++c) {
      ASSERT_EQ(code_of(out, r, c), code_of(input, r, c)) << r << ", " << c << ": " << repeat;
    }
  }
  for (std::int64_t r = 0; r < input.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < input.scales.cols(); ++c) {
      ASSERT_EQ(block_scale_number(out, r, c), block_scale_number(input, r, c))
          << r << ", " << c << ": " << repeat;
    }
  }
}

TEST(Repack, KeepsEveryValueAndScaleOfAnyLayout) {
  for (std::int64_t rows : {1, 130}) {
    for (std::int64_t cols : {1, 127, 300}) {
      const std::int64_t strides[][2] = {{cols, 1}, {cols + 7, 1}, {1, rows}, {2 * cols, 2}};
      for (const auto& stride : strides) {
        for (BlockShape block : kAllBlocks) {
          const RepackProblem problem{rows, cols, Dtype::e5m2, block, kCpu};
          const ForeignQuantized input(rows, cols, problem.format, block, stride[0], stride[1]);
          input.fill(1);
          const QuantizedTensor out(rows, cols, problem.format, block);
          run(plan_repack(problem, {"", 3}), {input.view(), out});
          expect_repacked(input.view(), out, describe(problem));
        }
      }
    }
  }
}

TEST(Repack, ClearsThePaddingItOwnsAndNoOther) {
  const RepackProblem problem{130, 200, Dtype::e4m3, kBlock128x128, kCpu};
  const ForeignQuantized input(130, 200, Dtype::e4m3, kBlock128x128, 203, 1);
  input.fill(2);
  const QuantizedLayout layout(130, 200, Dtype::e4m3, kBlock128x128);
  for (bool owns_padding : {true, false}) {
    Buffer memory(layout.bytes + 512);
    std::memset(memory.data(), 0xA5, memory.bytes());
    auto* bytes = static_cast<std::uint8_t*>(memory.data());
    QuantizedView out = layout.view(bytes + 256);
    out.owns_padding = owns_padding;
    run(plan_repack(problem), {input.view(), out});
    expect_repacked(input.view(), out, describe(problem));
    for (std::int64_t r = 0; r < 130; ++r) {
      for (std::int64_t c = 200; c < 256; ++c) {
        ASSERT_EQ(code_of(out, r, c), owns_padding ? 0 : 0xA5) << r << ", " << c;
      }
    }
    for (std::int64_t r = 0; r < 2; ++r) {
      const float padding = owns_padding ? 1.0f : f32_from_bits(0xA5A5A5A5u);
      EXPECT_EQ(block_scale_number(out, r, 2), padding);
      EXPECT_EQ(block_scale_number(out, r, 3), padding);
    }
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(bytes[i], 0xA5);
      ASSERT_EQ(bytes[256 + layout.bytes + i], 0xA5);
    }
  }
}

TEST(Repack, PadsScalesOfMxBlocksWithOnes) {
  for (BlockShape block : {kBlock1x32, kBlock32x32}) {
    const RepackProblem problem{70, 200, Dtype::e4m3, block, kCpu};  // 7 scales in a row of 8
    const ForeignQuantized input(70, 200, Dtype::e4m3, block, 1, 70);
    input.fill(3);
    const QuantizedTensor out(70, 200, Dtype::e4m3, block);
    std::memset(out.view().scales.data, 0xA5,
                static_cast<std::size_t>(out.view().scales.rows()) * 8);
    run(plan_repack(problem), {input.view(), out});
    expect_repacked(input.view(), out, describe(problem));
    for (std::int64_t r = 0; r < out.view().scales.rows(); ++r) {
      EXPECT_EQ(block_scale_number(out, r, 7), 1) << r;
    }
  }
}

// gemm refuses a foreign operand, and the way out that it suggests works.
TEST(Repack, MakesAForeignViewFitForGemm) {
  const ForeignQuantized a(5, 200, Dtype::e4m3, kBlock1x128, 201, 1);
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t k = 0; k < 200; ++k) {  // finite, of both signs
      a.set_code(r, k, static_cast<std::uint8_t>(37 * r + 11 * k) & 0xF7);
    }
    for (std::int64_t i = 0; i < 2; ++i)
      a.set_f32_scale(r, i, 0.5f + static_cast<float>(r + i) / 7);
  }
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
    run(gemm, {a.view(), b, d}, workspace);
    FAIL() << "gemm took a misaligned operand";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("repack"), std::string::npos) << error.what();
  }
  const QuantizedTensor packed(5, 200, Dtype::e4m3, kBlock1x128);
  run(plan_repack({5, 200, Dtype::e4m3, kBlock1x128, kCpu}), {a.view(), packed});
  run(gemm, {packed, b, d}, workspace);
  for (std::int64_t r = 0; r < 5; ++r) {
    double wanted = 0;
    double magnitude = 0;
    for (std::int64_t k = 0; k < 200; ++k) {
      const double value =
          f32_from_e4m3(code_of(a.view(), r, k)) * block_scale_number(a.view(), r, k / kBlock);
      wanted += value;
      magnitude += std::fabs(value);
    }
    EXPECT_NEAR(static_cast<const float*>(d.data())[r * 3], wanted, magnitude * 0x1p-20);
  }
}

TEST(RepackThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const RepackProblem problem{700, 500, Dtype::e4m3, kBlock1x128, kCpu};
  const ForeignQuantized input(700, 500, Dtype::e4m3, kBlock1x128, 1, 701);
  input.fill(4);
  for (int threads : {1, 2, 3, 7}) {
    const QuantizedTensor out(700, 500, Dtype::e4m3, kBlock1x128);
    run(plan_repack(problem, {"", threads}), {input.view(), out});
    expect_repacked(input.view(), out, text(threads, " threads: ", describe(problem)));
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
  const ForeignQuantized input(4, 200, Dtype::e4m3, kBlock1x128, 200, 1);
  EXPECT_EQ(refusal([&] {
              run(plan, {input.view(), input.view()});
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
