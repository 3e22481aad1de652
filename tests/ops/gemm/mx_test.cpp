// The exact product of mx operands: 1x32 and 32x32 blocks with ue8m0 scales, on the CPU.
#include "core/checks.hpp"
#include "ops/gemm/product_case.hpp"
#include "support/foreign_quantized.hpp"
#include "support/refusal.hpp"

#include <cmath>
#include <numeric>
#include <vector>

namespace octet::testing {
namespace {

constexpr BlockShape kPairs[][2] = {
    {kBlock1x32, kBlock1x32}, {kBlock1x32, kBlock32x32}, {kBlock32x32, kBlock1x32}};
constexpr Dtype kFormats[][2] = {{Dtype::e4m3, Dtype::e4m3},
                                 {Dtype::e5m2, Dtype::e4m3},
                                 {Dtype::e4m3, Dtype::e5m2},
                                 {Dtype::e5m2, Dtype::e5m2}};

struct Extents {
  std::int64_t m, n, k;
};
// Below a slice, whole slices, one more, and more than the SIMD kernels pack at a time.
constexpr Extents kExtents[] = {{1, 1, 1},    {3, 5, 31},    {33, 17, 32},   {9, 49, 33},
                                {40, 33, 97}, {65, 70, 256}, {37, 130, 1000}};

GemmProblem mx_problem(const Extents& extents, const BlockShape (&blocks)[2],
                       const Dtype (&formats)[2], Dtype out) {
  GemmProblem problem{.m = extents.m, .n = extents.n, .k = extents.k, .out_dtype = out};
  problem.a = {formats[0], blocks[0]};
  problem.b = {formats[1], blocks[1]};
  return problem;
}

// Rows start on 16-byte boundaries; scales have gaps between them.
ForeignQuantized operand_of(const GemmOperand& operand, std::int64_t rows, std::int64_t k) {
  return {rows, k, operand.dtype, operand.block, round_up(k, 16) + 16, 1, 0};
}

// Visits every problem of the lists.
template <class Use>
void for_each_problem(Dtype out, const Use& use) {
  std::uint64_t seed = 0;
  for (const Extents& extents : kExtents) {
    for (const auto& blocks : kPairs) {
      for (const auto& formats : kFormats) {
        use(mx_problem(extents, blocks, formats, out), ++seed);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Integers in [-2, 2] and scales of 1 to 8: every sum is exact.
void fill_integers(const ForeignQuantized& operand, std::mt19937_64& random) {
  const QuantizedView& view = operand.view();
  for (std::int64_t r = 0; r < view.values.rows(); ++r) {
    for (std::int64_t c = 0; c < view.values.cols(); ++c) {
      const auto value = static_cast<float>(static_cast<int>(random() % 5) - 2);
      operand.set_code(r, c, code_of(value, view.values.dtype));
    }
  }
  for (std::int64_t i = 0; i < view.scales.rows(); ++i) {
    for (std::int64_t j = 0; j < view.scales.cols(); ++j) {
      operand.set_mx_scale(i, j, static_cast<std::uint8_t>(127 + random() % 4));
    }
  }
}

// Finite codes, and scales of 2^-6 to 2^5.
void fill_finite(const ForeignQuantized& operand, std::mt19937_64& random) {
  const QuantizedView& view = operand.view();
  for (std::int64_t r = 0; r < view.values.rows(); ++r) {
    for (std::int64_t c = 0; c < view.values.cols(); ++c) {
      operand.set_code(r, c, static_cast<std::uint8_t>((random() & 0x80u) | random() % 0x70u));
    }
  }
  for (std::int64_t i = 0; i < view.scales.rows(); ++i) {
    for (std::int64_t j = 0; j < view.scales.cols(); ++j) {
      operand.set_mx_scale(i, j, static_cast<std::uint8_t>(121 + random() % 12));
    }
  }
}

// An operand in f64: values, and values times scales, [rows][k].
struct Numbers {
  std::vector<double> values;
  std::vector<double> products;

  explicit Numbers(const QuantizedView& view) {
    for (std::int64_t r = 0; r < view.values.rows(); ++r) {
      for (std::int64_t k = 0; k < view.values.cols(); ++k) {
        const std::uint8_t code = code_of(view, r, k);
        values.push_back(
            double{view.values.dtype == Dtype::e4m3 ? f32_from_e4m3(code) : f32_from_e5m2(code)});
        products.push_back(values.back() * scale_number(view, r, k));
      }
    }
  }
};

// Element [m, n] of the product in f64.
double dot(const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto* const first = a.products.data() + m * k;
  return std::inner_product(first, first + k, b.products.data() + n * k, 0.0);
}

// The order that octet/ops/gemm.hpp promises; `scales` has sa * sb of element [m, n] at k.
template <class Scales>
float in_slices_of_32(const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t n,
                      std::int64_t length, const Scales& scales) {
  float acc = 0;
  for (std::int64_t begin = 0; begin < length; begin += 32) {
    float slice = 0;
    for (std::int64_t k = begin; k < std::min(begin + 32, length); ++k) {
      slice =
          std::fma(static_cast<float>(a.values[static_cast<std::size_t>(m * length + k)]),
                   static_cast<float>(b.values[static_cast<std::size_t>(n * length + k)]), slice);
    }
    acc = std::fma(slice, static_cast<float>(scales(begin)), acc);
  }
  return acc;
}

TEST(GemmMx, IsExactOnSmallIntegers) {
  for_each_problem(Dtype::f32, [](const GemmProblem& problem, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const ForeignQuantized a = operand_of(problem.a, problem.m, problem.k);
    const ForeignQuantized b = operand_of(problem.b, problem.n, problem.k);
    fill_integers(a, random);
    fill_integers(b, random);
    const Numbers a_numbers(a.view());
    const Numbers b_numbers(b.view());
    for (const Runner& runner : all_runners()) {
      const Tensor d(Dtype::f32, {problem.m, problem.n});
      runner.run(problem, {a.view(), b.view(), d}, 2);
      for (std::int64_t m = 0; m < problem.m; ++m) {
        for (std::int64_t n = 0; n < problem.n; ++n) {
          ASSERT_EQ(static_cast<const float*>(d.data())[m * problem.n + n],
                    dot(a_numbers, b_numbers, m, n, problem.k))
              << runner.name << " at " << m << ", " << n << ": octet check " << describe(problem);
        }
      }
    }
  });
}

TEST(GemmMx, AddsSlicesOf32InOrder) {
  for_each_problem(Dtype::f32, [](const GemmProblem& problem, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const ForeignQuantized a = operand_of(problem.a, problem.m, problem.k);
    const ForeignQuantized b = operand_of(problem.b, problem.n, problem.k);
    fill_finite(a, random);
    fill_finite(b, random);
    const Numbers a_numbers(a.view());
    const Numbers b_numbers(b.view());
    for (const Runner& runner : all_runners()) {
      const Tensor d(Dtype::f32, {problem.m, problem.n});
      runner.run(problem, {a.view(), b.view(), d}, 2);
      for (std::int64_t m = 0; m < problem.m; ++m) {
        for (std::int64_t n = 0; n < problem.n; ++n) {
          const float wanted =
              in_slices_of_32(a_numbers, b_numbers, m, n, problem.k, [&](std::int64_t k) {
                return scale_number(a.view(), m, k) * scale_number(b.view(), n, k);
              });
          ASSERT_EQ(bits_of(static_cast<const float*>(d.data())[m * problem.n + n]),
                    bits_of(wanted))
              << runner.name << " at " << m << ", " << n << ": octet check " << describe(problem);
        }
      }
    }
  });
}

// Signal and noise in f64, as G2 has them: f32 out > 120 dB, 16-bit out > 50 dB.
TEST(GemmMx, IsWithinTheGates) {
  for (Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const auto& blocks : kPairs) {
      for (const auto& formats : kFormats) {
        const GemmProblem problem = mx_problem({40, 70, 777}, blocks, formats, out);
        std::mt19937_64 random(11);
        const ForeignQuantized a = operand_of(problem.a, problem.m, problem.k);
        const ForeignQuantized b = operand_of(problem.b, problem.n, problem.k);
        fill_finite(a, random);
        fill_finite(b, random);
        // Sums of f16 are below 65504.
        const double unit = out == Dtype::f16 ? 0x1p-24 : 1;
        if (out == Dtype::f16) {
          for (std::int64_t i = 0; i < a.view().scales.rows(); ++i) {
            for (std::int64_t j = 0; j < a.view().scales.cols(); ++j) a.set_mx_scale(i, j, 103);
          }
          for (std::int64_t r = 0; r < problem.m; ++r) {
            for (std::int64_t k = 0; k < problem.k; ++k) {
              a.set_code(r, k, code_of(random() % 2 == 0 ? 1.0f : -0.5f, problem.a.dtype));
            }
          }
        }
        const Numbers a_numbers(a.view());
        const Numbers b_numbers(b.view());
        for (const Runner& runner : all_runners()) {
          const Tensor d(out, {problem.m, problem.n});
          runner.run(problem, {a.view(), b.view(), d}, 2);
          double signal = 0;
          double noise = 0;
          for (std::int64_t m = 0; m < problem.m; ++m) {
            for (std::int64_t n = 0; n < problem.n; ++n) {
              const double wanted = dot(a_numbers, b_numbers, m, n, problem.k);
              const double error = load_f32(d.data(), m * problem.n + n, out) - wanted;
              signal += wanted / unit * wanted / unit;
              noise += error / unit * error / unit;
            }
          }
          const double decibels = 10 * std::log10(signal / noise);
          EXPECT_GT(decibels, out == Dtype::f32 ? 120 : 50)
              << runner.name << ": octet check " << describe(problem);
        }
      }
    }
  }
}

TEST(GemmMx, AddsABiasOrTheOldOutput) {
  GemmProblem problem = mx_problem({9, 20, 70}, kPairs[1], kFormats[0], Dtype::f32);
  std::mt19937_64 random(5);
  const ForeignQuantized a = operand_of(problem.a, problem.m, problem.k);
  const ForeignQuantized b = operand_of(problem.b, problem.n, problem.k);
  fill_integers(a, random);
  fill_integers(b, random);
  const Tensor plain(Dtype::f32, {9, 20});
  through_the_api("cpu_reference").run(problem, {a.view(), b.view(), plain}, 1);
  for (const Runner& runner : all_runners()) {
    GemmProblem with_bias = problem;
    with_bias.bias_dtype = Dtype::f32;
    const Tensor bias = integer_bias(with_bias);
    const Tensor d(Dtype::f32, {9, 20});
    runner.run(with_bias, {a.view(), b.view(), d, bias.view()}, 1);
    GemmProblem added = problem;
    added.accumulate = true;
    runner.run(added, {a.view(), b.view(), d}, 1);
    for (std::int64_t i = 0; i < 180; ++i) {
      const float product = static_cast<const float*>(plain.data())[i];
      EXPECT_EQ(static_cast<const float*>(d.data())[i],
                2 * product + static_cast<const float*>(bias.data())[i % 20])
          << runner.name << " at " << i;
    }
  }
}

// A NaN scale poisons the rows, or the columns, of its block and nothing else.
TEST(GemmMx, PoisonsExactlyTheOutputsOfANaNScale) {
  for (const auto& blocks : kPairs) {
    for (const bool in_a : {true, false}) {
      const GemmProblem problem = mx_problem({70, 90, 100}, blocks, kFormats[0], Dtype::f32);
      std::mt19937_64 random(7);
      const ForeignQuantized a = operand_of(problem.a, problem.m, problem.k);
      const ForeignQuantized b = operand_of(problem.b, problem.n, problem.k);
      fill_finite(a, random);
      fill_finite(b, random);
      const ForeignQuantized& poisoned = in_a ? a : b;
      poisoned.set_mx_scale(1, 3, 0xFF);  // of the last slice, which is short
      const std::int64_t block_rows = poisoned.view().block.rows;
      for (const Runner& runner : all_runners()) {
        const Tensor d(Dtype::f32, {problem.m, problem.n});
        runner.run(problem, {a.view(), b.view(), d}, 2);
        for (std::int64_t m = 0; m < problem.m; ++m) {
          for (std::int64_t n = 0; n < problem.n; ++n) {
            const bool depends = (in_a ? m : n) / block_rows == 1;
            ASSERT_EQ(std::isnan(static_cast<const float*>(d.data())[m * problem.n + n]), depends)
                << runner.name << " at " << m << ", " << n << ": " << describe(problem);
          }
        }
      }
    }
  }
}

TEST(GemmMx, RefusesWhatItCannotMean) {
  GemmProblem problem = mx_problem({4, 4, 64}, kPairs[0], kFormats[0], Dtype::f32);
  problem.b.block = kBlock1x128;
  EXPECT_EQ(
      refusal([&] { plan_gemm(problem); }, ErrorCode::unsupported),
      "gemm: a and b must both have mx blocks, 1x32 or 32x32, or neither, got 1x32 and 1x128");
  problem.a.block = problem.b.block = kBlock32x32;
  EXPECT_EQ(refusal([&] { plan_gemm(problem); }, ErrorCode::unsupported),
            "gemm: a and b have both 32x32 blocks; at least one must have 1x32");
  problem.a.block = kBlock128x1;
  EXPECT_EQ(refusal([&] { plan_gemm(problem); }, ErrorCode::unsupported),
            "gemm: blocks of a must be 1x128, 128x128, 1xall, allxall, 1x32 or 32x32, got 128x1");
  problem = mx_problem({4, 4, 64}, kPairs[0], kFormats[0], Dtype::f32);
  const ForeignQuantized a = operand_of(problem.a, 4, 64);
  const ForeignQuantized b = operand_of(problem.b, 4, 64);
  QuantizedView f32_scales = b.view();
  f32_scales.scales.dtype = Dtype::f32;
  const Tensor d(Dtype::f32, {4, 4});
  EXPECT_EQ(refusal([&] {
              through_the_api("").run(problem, {a.view(), f32_scales, d}, 1);
            }),
            "gemm: scale of b must be ue8m0, got f32");
  Machine hopper = this_machine(kCpu, 1);
  hopper.sm_major = 9;
  problem.device = OnCuda::kDevice;
  EXPECT_EQ(kGemmCudaSm90Wgmma.refuse(problem, hopper),
            "mx blocks have no tensor cores on Hopper; quantize folds them into 1x128 and 128x128 "
            "(fold_mx)");
}

}  // namespace
}  // namespace octet::testing
