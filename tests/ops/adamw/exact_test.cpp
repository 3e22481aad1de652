// Steps computed by hand, and random ones against the formula in f64.
#include "ops/adamw/case.hpp"

namespace octet {
namespace {

constexpr const char* kBackends[] = {"cpu_simd", "cpu_reference"};

// beta1 = beta2 = 1/2 in the first step: both corrections are 1/2, the root of the second is not
// exact, so that v is chosen such that it drops out: in step 1 from zero moments, m' / c1 = g and
// sqrt(v' / c2) = |g| up to rounding; with eps 0 and lr 1 the weight moves by the sign of g.
TEST(AdamW, FirstStepMovesByTheSign) {
  for (const char* backend : kBackends) {
    Tensor w(Dtype::f32, {3}), g(Dtype::f32, {3}), m(Dtype::f32, {3}), v(Dtype::f32, {3});
    const float gradients[] = {4, -0.25f, 1};
    for (int i = 0; i < 3; ++i) {
      static_cast<float*>(w.data())[i] = 10;
      static_cast<float*>(g.data())[i] = gradients[i];
      static_cast<float*>(m.data())[i] = 0;
      static_cast<float*>(v.data())[i] = 0;
    }
    AdamWProblem problem{3, Dtype::f32, Dtype::f32, Dtype::f32};
    AdamWArgs args{w, g, m, v, {}, {}, 1, 0.5, 0.5, 0, 0, 1};
    run(plan_adamw(problem, {backend}), args);
    const float wanted[] = {9, 11, 9};
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(static_cast<float*>(w.data())[i], wanted[i], 2e-6) << backend;
      EXPECT_EQ(static_cast<float*>(m.data())[i], gradients[i] / 2) << backend;
      EXPECT_EQ(static_cast<float*>(v.data())[i], gradients[i] * gradients[i] / 2) << backend;
    }
  }
}

// beta2 = 0: v' = g^2, c2 = 1, and every operation is exact for powers of two.
TEST(AdamW, PowersOfTwoAreExact) {
  for (const char* backend : kBackends) {
    for (const Dtype dtype : kFloats) {
      for (const bool master : {false, true}) {
        const Dtype moments = dtype == Dtype::f16 ? Dtype::f32 : dtype;
        AdamWCase one({1, dtype, dtype, moments, master, true});
        const TensorView weight = master ? one.args.master : one.args.w;
        store_f32(weight.data, 0, weight.dtype, 3);
        store_f32(one.args.g.data, 0, dtype, 4);
        store_f32(one.args.m.data, 0, moments, 1);
        store_f32(one.args.v.data, 0, moments, 100);
        *static_cast<float*>(one.args.grad_scale.data) = 0.5f;
        one.args.lr = 0.25;
        one.args.beta1 = 0.5;  // c1 = 1 - 1/2 in step 1
        one.args.beta2 = 0;
        one.args.eps = 2;
        one.args.weight_decay = 1;
        one.args.step = 1;
        one.run_on({backend});
        // g' = 2, m' = 1/2 + 1, v' = 4; w' = 3 * 3/4 - (1/4 / 1/2) * 1.5 / (2 + 2) = 2.0625
        EXPECT_EQ(AdamWCase::at(one.args.m, 0), 1.5f);
        EXPECT_EQ(AdamWCase::at(one.args.v, 0), 4.0f);
        EXPECT_EQ(AdamWCase::at(one.args.w, 0), 2.0625f) << backend;
        if (master) {
          EXPECT_EQ(AdamWCase::at(one.args.master, 0), 2.0625f);
        }
      }
    }
  }
}

double rounding(Dtype dtype) {
  return dtype == Dtype::f32 ? 0x1p-24 : dtype == Dtype::f16 ? 0x1p-11 : 0x1p-8;
}

// Half an ulp of the stored dtype, and a few roundings of f32.
void expect_near(double given, double wanted, double magnitude, Dtype dtype, const char* tensor) {
  const double bound =
      rounding(dtype) * std::fabs(wanted) + 8 * 0x1p-24 * magnitude + 1e-7 * 0x1p-24;
  const double subnormal = dtype == Dtype::f16 ? 0x1p-25 : 0;
  ASSERT_NEAR(given, wanted, bound + subnormal) << tensor;
}

TEST(AdamW, FollowsTheFormulaInF64) {
  for (const char* backend : kBackends) {
    for_every_problem(70, [&](const AdamWProblem& problem) {
      SCOPED_TRACE(text(backend, ": ", describe(problem)));
      const AdamWCase before(problem), after(problem);
      after.run_on({backend});
      const AdamWArgs& a = before.args;
      const double scale = problem.grad_scale ? double{AdamWCase::at(a.grad_scale, 0)} : 1;
      for (std::int64_t i = 0; i < problem.count; ++i) {
        const double g = AdamWCase::at(a.g, i) * scale;
        const double m = a.beta1 * AdamWCase::at(a.m, i) + (1 - a.beta1) * g;
        const double v = a.beta2 * AdamWCase::at(a.v, i) + (1 - a.beta2) * g * g;
        const double old = AdamWCase::at(problem.master ? a.master : a.w, i);
        const double m_hat = m / (1 - std::pow(a.beta1, 7)), v_hat = v / (1 - std::pow(a.beta2, 7));
        const double w =
            old * (1 - a.lr * a.weight_decay) - a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
        expect_near(AdamWCase::at(after.args.m, i), m, 0.2, problem.moments_dtype, "m");
        expect_near(AdamWCase::at(after.args.v, i), v, v, problem.moments_dtype, "v");
        expect_near(AdamWCase::at(after.args.w, i), w, 2 + std::fabs(old), problem.dtype, "w");
        if (problem.master) {
          expect_near(AdamWCase::at(after.args.master, i), w, 2 + std::fabs(old), Dtype::f32,
                      "master");
          EXPECT_EQ(AdamWCase::at(after.args.w, i), [&] {
            float rounded = 0;
            store_f32(&rounded, 0, problem.dtype, AdamWCase::at(after.args.master, i));
            return load_f32(&rounded, 0, problem.dtype);
          }());
        }
      }
    });
  }
}

TEST(AdamW, NothingToDoIsDone) {
  const AdamWCase empty(AdamWProblem{0, Dtype::bf16, Dtype::bf16, Dtype::bf16, true});
  for (const char* backend : kBackends) EXPECT_NO_THROW(empty.run_on({backend}));
}

}  // namespace
}  // namespace octet
