// The gradient of a bias: against f64, the same bits whatever computes it, and nothing but dbias
// written.
#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "ops/fp8_linear/bias_gradient.hpp"
#include "support/on_cuda.hpp"
#include "support/rounding.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace octet::testing {
namespace {

constexpr Dtype kFloats[] = {Dtype::bf16, Dtype::f16, Dtype::f32};
constexpr float kGuard = 77;

// dy in a larger tensor, and dbias between guards.
struct Case {
  Tensor storage;
  TensorView dy;   // [rows, cols]
  Tensor guarded;  // [1 + cols + 1]
  TensorView dbias;
  std::vector<double> exact;    // column sums in f64
  std::vector<double> largest;  // sums of magnitudes

  Case(std::int64_t rows, std::int64_t cols, std::int64_t gap, Dtype dtype, Dtype out,
       float before = NAN)
      : storage(dtype, {rows, cols + gap}),
        dy(make_matrix(storage.data(), dtype, rows, cols, cols + gap)),
        guarded(out, {cols + 2}),
        dbias(make_view(static_cast<char*>(guarded.data()) + size_bytes(out), out, {cols})),
        exact(static_cast<std::size_t>(cols)),
        largest(static_cast<std::size_t>(cols)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * (cols + gap); ++i) {
      const std::int64_t col = i % (cols + gap);
      store_f32(storage.data(), i, dtype, col < cols ? normal(random) : NAN);
      if (col >= cols) continue;
      const double value = load_f32(storage.data(), i, dtype);
      exact[static_cast<std::size_t>(col)] += value;
      largest[static_cast<std::size_t>(col)] += std::fabs(value);
    }
    for (std::int64_t i = 0; i < cols + 2; ++i) {
      store_f32(guarded.data(), i, out, i == 0 || i == cols + 1 ? kGuard : before);
    }
  }

  std::vector<char> bytes() const {
    const auto* data = static_cast<const char*>(guarded.data());
    return {data, data + guarded.bytes()};
  }
};

// One way to compute dbias.
struct Way {
  std::string name;
  std::optional<InstructionSet> instructions;
  int threads;
};

std::vector<Way> ways() {
  std::vector<Way> result{{"scalar", {}, 1}, {"scalar, 3 threads", {}, 3}};
  const Machine machine = this_machine(kCpu, 1);
  if (machine.avx2) result.push_back({"avx2", InstructionSet::avx2, 2});
  if (machine.avx512) result.push_back({"avx512", InstructionSet::avx512, 4});
  return result;
}

void compute(const Case& given, const Way& way, bool accumulate = false) {
  const std::int64_t runs = bias_gradient_runs(given.dy.rows());
  std::vector<float> partials(static_cast<std::size_t>(runs * given.dy.cols()), NAN);
  add_bias_gradient({given.dy, given.dbias, partials.data(), accumulate}, way.instructions,
                    way.threads);
}

// More runs than lines, whole and cut runs, widths beside vectors and tasks.
constexpr std::int64_t kShapes[][2] = {{1, 1},    {64, 7},   {65, 129},
                                       {63, 257}, {300, 31}, {2500, 520}};

TEST(BiasGradient, IsTheSumOfColumnsWithinF32) {
  for (const auto& [rows, cols] : kShapes) {
    for (const Dtype dtype : kFloats) {
      const Case given(rows, cols, 3, dtype, Dtype::f32);
      compute(given, ways().back());
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto i = static_cast<std::size_t>(c);
        // A chain has at most 64 + runs / 32 + 32 additions.
        const double bound = (96.0 + static_cast<double>(rows) / 2048) * std::ldexp(1.0, -24);
        ASSERT_NEAR(load_f32(given.dbias.data, c, Dtype::f32), given.exact[i],
                    bound * given.largest[i])
            << rows << " x " << cols << " " << name(dtype) << ", column " << c;
      }
    }
  }
}

TEST(BiasGradient, HasTheSameBitsWhateverComputesIt) {
  for (const auto& [rows, cols] : kShapes) {
    for (const Dtype dtype : kFloats) {
      for (const Dtype out : kFloats) {
        const Case wanted(rows, cols, 5, dtype, out, 3);
        compute(wanted, ways().front(), out == Dtype::f32);
        EXPECT_EQ(load_f32(wanted.guarded.data(), 0, out), kGuard);
        EXPECT_EQ(load_f32(wanted.guarded.data(), cols + 1, out), kGuard);
        for (const Way& way : ways()) {
          const Case given(rows, cols, 5, dtype, out, 3);
          compute(given, way, out == Dtype::f32);
          EXPECT_EQ(given.bytes(), wanted.bytes())
              << way.name << ": " << rows << " x " << cols << " " << name(dtype);
        }
      }
    }
  }
}

TEST(BiasGradient, RoundsTheSumOnce) {
  const Case in_f32(700, 40, 0, Dtype::bf16, Dtype::f32);
  compute(in_f32, ways().front());
  for (const Dtype out : {Dtype::bf16, Dtype::f16}) {
    const Case given(700, 40, 0, Dtype::bf16, out);
    compute(given, ways().front());
    for (std::int64_t c = 0; c < 40; ++c) {
      EXPECT_EQ(load_f32(given.dbias.data, c, out),
                rounded(load_f32(in_f32.dbias.data, c, Dtype::f32), out));
    }
  }
}

TEST(BiasGradientCuda, HasTheBitsOfTheCpu) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kMore[][2] = {{8192, 4096}, {8191, 1032}, {100, 40000}};
  const auto expect = [](std::int64_t rows, std::int64_t cols, std::int64_t gap, Dtype dtype) {
    for (const Dtype out : kFloats) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && out == Dtype::f16) continue;
        const Case wanted(rows, cols, gap, dtype, out, 3);
        const Case given(rows, cols, gap, dtype, out, 3);
        compute(wanted, ways().back(), accumulate);
        OnCuda device;
        const TensorView guarded = device.copy_in(given.guarded.view());
        TensorView dbias = given.dbias;
        dbias.data = static_cast<char*>(guarded.data) + size_bytes(out);
        dbias.device = OnCuda::kDevice;
        const Buffer partials(
            static_cast<std::size_t>(bias_gradient_runs(rows) * cols) * sizeof(float),
            OnCuda::kDevice);
        launch_bias_gradient(
            {device.copy_in(given.dy), dbias, static_cast<float*>(partials.data()), accumulate},
            nullptr);
        cuda::synchronize(0);
        OnCuda::copy_out(guarded, given.guarded.view());
        EXPECT_TRUE(given.bytes() == wanted.bytes())
            << rows << " x " << cols << " + " << gap << " " << name(dtype) << " to " << name(out);
      }
    }
  };
  for (const Dtype dtype : kFloats) {
    for (const auto& [rows, cols] : kShapes) {
      expect(rows, cols, 0, dtype);
      expect(rows, cols, 3, dtype);
    }
    for (const auto& [rows, cols] : kMore) expect(rows, cols, 8, dtype);
  }
}

// Without products: dy is not cast, and backward reads nothing else.
TEST(Fp8LinearBiasGradient, NeedsNeitherDxNorDw) {
  Fp8LinearProblem problem{.m = 150, .n = 33, .k = 20, .need_dx = false, .need_dw = false};
  problem.dbias_dtype = Dtype::f32;
  const Fp8LinearBackwardPlan plan = plan_fp8_linear_backward(problem);
  EXPECT_EQ(plan.implementation.find("dbias="), 0u) << plan.implementation;
  const Case wanted(150, 33, 0, Dtype::bf16, Dtype::f32);
  const Case given(150, 33, 0, Dtype::bf16, Dtype::f32);
  compute(wanted, ways().front());
  const Buffer workspace(plan.workspace_bytes);
  run(plan, {.dy = given.dy, .saved = {}, .dx = {}, .dw = {}, .dbias = given.dbias},
      {workspace.data(), workspace.bytes()});
  EXPECT_EQ(given.bytes(), wanted.bytes());
}

TEST(Fp8LinearBiasGradient, NamesWhatComputesIt) {
  Fp8LinearProblem problem{.m = 5, .n = 3, .k = 20};
  const std::string without = plan_fp8_linear_backward(problem).implementation;
  EXPECT_EQ(without.find("dbias"), std::string::npos);
  EXPECT_EQ(describe(problem).find("bias"), std::string::npos);
  problem.bias_dtype = Dtype::bf16;
  problem.dbias_dtype = Dtype::f32;
  const bool simd = this_machine(kCpu, 1).avx2;
  EXPECT_EQ(plan_fp8_linear_backward(problem).implementation,
            without + (simd ? " dbias=cpu_simd" : " dbias=cpu_reference"));
  EXPECT_NE(describe(problem).find(" --bias bf16 --dbias f32"), std::string::npos);
}

}  // namespace
}  // namespace octet::testing
