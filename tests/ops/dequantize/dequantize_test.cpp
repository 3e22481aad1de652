// dequantize against a table of FP8 values in f64, for every implementation, block and output.
#include "ops/dequantize/problem.hpp"
#include "ops/quantize/fp8_oracle.hpp"
#include "ops/quantize/paths.hpp"
#include "support/foreign_quantized.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace octet {
namespace {

using testing::code_of;
using testing::ForeignQuantized;
using testing::kAllBlocks;
using testing::scale_number;

void dequantize_by(Path path, const DequantizeProblem& problem, const DequantizeArgs& args,
                   int threads = 2) {
  run_by(path, problem, args, threads, plan_dequantize, dequantize_cpu_simd);
}

// The f32 product in f64, rounded to nearest, ties to even, in the output's dtype: divides by the
// spacing at `value` and rounds with std::nearbyint.
double rounded(double value, Dtype out) {
  if (!std::isfinite(value) || value == 0 || out == Dtype::f32) return value;
  const int digits = out == Dtype::f16 ? 11 : 8;
  const int smallest = out == Dtype::f16 ? -24 : -133;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int step = std::max(exponent - digits, smallest);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  const double limit = out == Dtype::f16 ? 65504 : std::ldexp(255.0, 120);
  return std::fabs(result) > limit ? std::copysign(INFINITY, result) : result;
}

void expect_dequantized(const DequantizeProblem& problem, const QuantizedView& input, Path path) {
  const oracle::Fp8Table table(problem.format);
  Input out(problem.rows, problem.cols, problem.out_dtype, 5);
  dequantize_by(path, problem, {input, out.view()});
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const auto product =
          static_cast<float>(table.decode(code_of(input, r, c)) * scale_number(input, r, c));
      const double wanted = rounded(product, problem.out_dtype);
      const float got = out.at(r, c);
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(got)) << name(path) << ": " << describe(problem);
      } else {
        ASSERT_EQ(static_cast<double>(got), wanted)
            << name(path) << " at " << r << ", " << c << ": " << describe(problem);
        ASSERT_EQ(std::signbit(got), std::signbit(wanted)) << name(path);
      }
    }
  }
}

TEST(Dequantize, IsTheRoundedProductForEveryFormatBlockAndOutput) {
  constexpr std::int64_t kShapes[][2] = {{1, 1},     {3, 127},   {33, 65},
                                         {129, 128}, {130, 300}, {257, 1}};
  std::uint64_t seed = 0;
  for (const auto& shape : kShapes) {
    for (BlockShape block : kAllBlocks) {
      for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
        for (Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
          const DequantizeProblem problem{shape[0], shape[1], format, block, out, kCpu};
          ForeignQuantized input(problem.rows, problem.cols, format, block, problem.cols + 35, 1);
          input.fill(++seed);
          for (Path path : all_paths()) expect_dequantized(problem, input.view(), path);
        }
      }
    }
  }
}

// Every code with every ue8m0 scale: subnormal products, products beyond the output, NaN scales.
TEST(Dequantize, IsRightForEveryCodeAndMxScale) {
  for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    const ForeignQuantized input(256, 256, format, kBlock1x32, 256, 1);
    for (std::int64_t i = 0; i < 256; ++i) {
      for (std::int64_t j = 0; j < 256; ++j) {
        input.set_code(i, j, static_cast<std::uint8_t>(j));
        input.set_mx_scale(i, j / 32, static_cast<std::uint8_t>(i));
      }
    }
    for (Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      const DequantizeProblem problem{256, 256, format, kBlock1x32, out, kCpu};
      for (Path path : all_paths()) expect_dequantized(problem, input.view(), path);
    }
  }
}

TEST(Dequantize, MultipliesByAnyF32Scale) {
  const float scales[] = {0,       -0.0f,    1e-45f,    1.2e-38f, -2.5f,
                          3.4e38f, INFINITY, -INFINITY, NAN,      0x1p-140f};
  for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    const ForeignQuantized input(10, 256, format, kEachRow, 256, 1);
    for (std::int64_t i = 0; i < 10; ++i) {
      input.set_f32_scale(i, 0, scales[i]);
      for (std::int64_t j = 0; j < 256; ++j) input.set_code(i, j, static_cast<std::uint8_t>(j));
    }
    for (Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      const DequantizeProblem problem{10, 256, format, kEachRow, out, kCpu};
      for (Path path : all_paths()) expect_dequantized(problem, input.view(), path);
    }
  }
}

TEST(Dequantize, ReadsTransposedAndStridedValues) {
  for (BlockShape block : kAllBlocks) {
    for (const bool is_transposed : {true, false}) {
      ForeignQuantized input(200, 150, Dtype::e4m3, block, is_transposed ? 1 : 310,
                             is_transposed ? 211 : 2);
      input.fill(9);
      const DequantizeProblem problem{200, 150, Dtype::e4m3, block, Dtype::f32, kCpu};
      for (Path path : all_paths()) expect_dequantized(problem, input.view(), path);
    }
  }
}

TEST(Dequantize, DoesNotWriteToGapsBetweenRows) {
  const DequantizeProblem problem{130, 200, Dtype::e5m2, kBlock1x128, Dtype::bf16, kCpu};
  ForeignQuantized input(problem.rows, problem.cols, problem.format, problem.block, 203, 1);
  input.fill(11);
  for (Path path : all_paths()) {
    std::vector<std::uint16_t> memory(130 * 216 + 64, 0x7FA5);
    const TensorView out = make_matrix(memory.data() + 32, Dtype::bf16, 130, 200, 216);
    dequantize_by(path, problem, {input.view(), out});
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const bool inside = i >= 32 && i < 32 + 130 * 216 && (i - 32) % 216 < 200;
      if (!inside) {
        ASSERT_EQ(memory[i], 0x7FA5) << name(path) << " at " << i;
      }
    }
  }
}

TEST(Dequantize, UndoesQuantizeUpToHalfAStep) {
  QuantizeProblem problem{.rows = 64, .cols = 300};
  Input input(problem.rows, problem.cols, problem.input_dtype);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) input.set(r, c, normal(random));
  }
  const QuantizedTensor codes(problem.rows, problem.cols, problem.format, kBlock1x128);
  run(plan_quantize(problem), {input.view(), codes, {}});
  const Input out(problem.rows, problem.cols, Dtype::f32);
  run(plan_dequantize({problem.rows, problem.cols, problem.format, kBlock1x128, Dtype::f32, kCpu}),
      {codes, out.view()});
  const auto* scales = static_cast<const float*>(codes.view().scales.data);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const float scale = scales[r + c / kBlock * codes.view().scales.strides[1]];
      const float x = input.at(r, c);
      const float half_step = std::max(std::fabs(x) / 16, scale * 0x1p-10f);
      ASSERT_LE(std::fabs(out.at(r, c) - x), half_step * 1.001f);
    }
  }
}

TEST(DequantizeThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const DequantizeProblem problem{700, 900, Dtype::e4m3, kBlock128x128, Dtype::f16, kCpu};
  ForeignQuantized input(problem.rows, problem.cols, problem.format, problem.block, 903, 1);
  input.fill(12);
  for (Path path : all_paths()) {
    std::vector<std::uint16_t> wanted(700 * 900);
    dequantize_by(path, problem, {input.view(), make_view(wanted.data(), Dtype::f16, {700, 900})},
                  1);
    for (int threads : {2, 3, 7}) {
      std::vector<std::uint16_t> got(700 * 900);
      dequantize_by(path, problem, {input.view(), make_view(got.data(), Dtype::f16, {700, 900})},
                    threads);
      EXPECT_TRUE(got == wanted) << name(path) << ", " << threads << " threads";
    }
  }
}

TEST(DequantizeRefuses, WhatItCannotMean) {
  const DequantizeProblem problem{4, 200, Dtype::e4m3, kBlock1x128, Dtype::f32, kCpu};
  const ForeignQuantized input(4, 200, Dtype::e4m3, kBlock1x128, 200, 1, 0);
  const Input out(4, 200, Dtype::f32);
  DequantizeProblem wrong = problem;
  wrong.out_dtype = Dtype::e4m3;
  EXPECT_EQ(refusal([&] { plan_dequantize(wrong); }),
            "dequantize: out_dtype must be f32, f16 or bf16, got e4m3");
  wrong = problem;
  wrong.block = {1, 64};
  EXPECT_EQ(
      refusal([&] { plan_dequantize(wrong); }, ErrorCode::unsupported),
      "dequantize: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or 32x32, got "
      "1x64");
  const DequantizePlan plan = plan_dequantize(problem);
  EXPECT_EQ(refusal([&] {
              run(plan, {input.view(), transposed(out.view())});
            }),
            "dequantize: out must be [rows, cols] = [4, 200], got [200, 4]");
  TensorView aliased = make_matrix(input.view().values.data, Dtype::f32, 4, 200, 200);
  EXPECT_EQ(refusal([&] {
              run(plan, {input.view(), aliased});
            }),
            "dequantize: output out overlaps input: their memory must be apart");
}

}  // namespace
}  // namespace octet
