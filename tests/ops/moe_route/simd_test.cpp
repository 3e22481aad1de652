// Each instruction set against the reference, bit for bit (a NaN is a NaN).
#include "ops/moe_route/case.hpp"
#include "ops/moe_route/cpu_simd.hpp"

#include <limits>

namespace octet {
namespace {

template <class Change>
void expect_simd_equals_reference(const MoeRouteProblem& problem, std::uint64_t seed,
                                  const Change& change) {
  RouteCase wanted(problem, seed);
  change(wanted);
  wanted.forward({"cpu_reference"});
  wanted.indices.integer(0, 0) = seed % 4 == 0 ? -1 : wanted.indices.integer(0, problem.top_k - 1);
  wanted.backward(seed % 2 == 0, {"cpu_reference"});
  for (const InstructionSet instructions : instruction_sets()) {
    SCOPED_TRACE(describe(problem) + text(" seed ", seed, " ", name(instructions)));
    RouteCase given(problem, seed);
    change(given);
    const RunContext context{{}, 2, nullptr};
    moe_route_cpu_simd(
        problem,
        check(problem,
              MoeRouteForwardArgs{given.logits.view(), given.bias_view(), given.indices.view(),
                                  given.weights.view(), given.scores.view()},
              0, {}),
        context, instructions);
    given.indices.integer(0, 0) = seed % 4 == 0 ? -1 : given.indices.integer(0, problem.top_k - 1);
    moe_route_cpu_simd(
        problem,
        MoeRouteBackwardArgs{given.scores.view(), given.indices.view(), given.dweights.view(),
                             seed % 2 == 0 ? given.dscores.view() : TensorView(),
                             given.dlogits.view()},
        context, instructions);
    expect_equal(given.indices, wanted.indices, "indices");
    expect_equal(given.weights, wanted.weights, "weights");
    expect_equal(given.scores, wanted.scores, "scores");
    expect_equal(given.dlogits, wanted.dlogits, "dlogits");
  }
}
void expect_simd_equals_reference(const MoeRouteProblem& problem, std::uint64_t seed) {
  expect_simd_equals_reference(problem, seed, [](RouteCase&) {});
}

TEST(MoeRouteSimd, EqualsTheReference) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  Random random(9);
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    expect_simd_equals_reference(random_problem(random), seed);
  }
}

TEST(MoeRouteSimd, EqualsTheReferenceForEveryNumberOfExperts) {
  for (const std::int64_t experts :
       {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 160, 256, 1000, 1024}) {
    for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
      for (const std::int64_t top_k : {1, 8, 64}) {
        if (top_k > experts) continue;
        expect_simd_equals_reference({.tokens = 4,
                                      .experts = experts,
                                      .top_k = top_k,
                                      .dtype = Dtype::bf16,
                                      .score = score,
                                      .bias = top_k == 8},
                                     static_cast<std::uint64_t>(experts + top_k));
      }
    }
  }
}

// Ties, zeros of both signs, NaN, infinities, and logits beyond the range of exp.
TEST(MoeRouteSimd, EqualsTheReferenceForSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(10);
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const MoeRouteProblem problem = random_problem(random);
    expect_simd_equals_reference(problem, seed, [&](RouteCase& one) {
      Random same(seed);
      for (std::int64_t t = 0; t < problem.tokens; ++t) {
        for (std::int64_t i = 0; i < problem.experts; ++i) {
          const bool wild = seed % 2 == 0 && same() % 20 == 0;
          one.logits.set(
              t, i,
              wild ? any_of({NAN, kInfinity, -kInfinity, 1e-40f, 200.0f, -200.0f, 87.8f}, same)
                   : any_of({0.0f, -0.0f, 1.0f, -1.0f}, same));
        }
      }
      for (std::int64_t i = 0; i < problem.experts; ++i) {
        one.bias.set(0, i, same() % 50 == 0 ? -kInfinity : i % 2 ? 0.0f : -0.0f);
      }
    });
  }
}

}  // namespace
}  // namespace octet
