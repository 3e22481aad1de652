// The Hopper kernels have the bits of the reference (a NaN is a NaN), with gaps, for every form of
// a routing; ties, NaN, infinities and indices that are no experts included.
#include "ops/moe_route/case.hpp"
#include "support/on_cuda.hpp"

#include <cstring>
#include <limits>

namespace octet::testing {
namespace {

void forward_on_cuda(const RouteCase& one, bool with_scores) {
  MoeRouteProblem problem = one.problem;
  problem.device = OnCuda::kDevice;
  OnCuda device;
  const MoeRouteForwardArgs host{one.logits.view(), one.bias_view(), one.indices.view(),
                                 one.weights.view(),
                                 with_scores ? one.scores.view() : TensorView()};
  const MoeRouteForwardArgs args{device.copy_in(host.logits), device.copy_in(host.bias),
                                 device.copy_in(host.indices), device.copy_in(host.weights),
                                 device.copy_in(host.scores)};
  const MoeRouteForwardPlan plan = plan_moe_route_forward(problem);
  ASSERT_EQ(plan.implementation, "cuda_sm90_warps");
  run(plan, args);
  cuda::synchronize(0);
  OnCuda::copy_out(args.indices, host.indices);
  OnCuda::copy_out(args.weights, host.weights);
  OnCuda::copy_out(args.scores, host.scores);
}

void backward_on_cuda(const RouteCase& one, bool with_dscores) {
  MoeRouteProblem problem = one.problem;
  problem.device = OnCuda::kDevice;
  OnCuda device;
  const TensorView dscores = with_dscores ? device.copy_in(one.dscores.view()) : TensorView();
  const TensorView dlogits = device.copy_in(one.dlogits.view());
  run(plan_moe_route_backward(problem),
      {device.copy_in(one.scores.view()), device.copy_in(one.indices.view()),
       device.copy_in(one.dweights.view()), dscores, dlogits});
  cuda::synchronize(0);
  OnCuda::copy_out(dlogits, one.dlogits.view());
}

template <class Change>
void expect_bits_of_reference(const MoeRouteProblem& problem, std::uint64_t seed,
                              const Change& change) {
  SCOPED_TRACE(describe(problem) + text(" seed ", seed));
  RouteCase wanted(problem, seed), given(problem, seed);
  change(wanted);
  change(given);
  const bool with_scores = seed % 3 != 0;
  const bool with_dscores = seed % 2 == 0;
  wanted.forward();
  forward_on_cuda(given, with_scores);
  expect_equal(given.indices, wanted.indices, "indices");
  expect_equal(given.weights, wanted.weights, "weights");
  if (with_scores) expect_equal(given.scores, wanted.scores, "scores");
  // Backward from the reference's scores; one index is no expert, one repeats another.
  RouteCase back(problem, seed);
  change(back);
  wanted.indices.integer(0, 0) = seed % 4 == 0 ? -1 : wanted.indices.integer(0, problem.top_k - 1);
  const auto copy = [](const Gapped& from, const Gapped& to) {
    std::memcpy(to.view().data, from.view().data, from.bytes().size());
  };
  copy(wanted.scores, back.scores);
  copy(wanted.indices, back.indices);
  wanted.backward(with_dscores);
  backward_on_cuda(back, with_dscores);
  expect_equal(back.dlogits, wanted.dlogits, "dlogits");
}
void expect_bits_of_reference(const MoeRouteProblem& problem, std::uint64_t seed) {
  expect_bits_of_reference(problem, seed, [](RouteCase&) {});
}

TEST(MoeRouteCuda, HasTheBitsOfTheReference) {
  OCTET_NEEDS_HOPPER();
  Random random(5);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    expect_bits_of_reference(random_problem(random), seed);
  }
}

// Every number of experts per lane, and its edges.
TEST(MoeRouteCuda, HasTheBitsOfTheReferenceForEveryNumberOfExperts) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t experts :
       {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 160, 255, 256, 257, 384, 512, 1000, 1023, 1024}) {
    for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
      for (const std::int64_t top_k : {1, 8, 36, 64}) {
        if (top_k > experts) continue;
        expect_bits_of_reference({.tokens = 9,
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

TEST(MoeRouteCuda, HasTheBitsOfTheReferenceForModels) {
  OCTET_NEEDS_HOPPER();
  expect_bits_of_reference({.tokens = 1000,
                            .experts = 256,
                            .top_k = 8,
                            .score = RouteScore::sigmoid,
                            .bias = true,
                            .expert_groups = 8,
                            .top_groups = 4,
                            .scale = 2.5f},
                           2);
  expect_bits_of_reference({.tokens = 1000, .experts = 128, .top_k = 8}, 4);
  expect_bits_of_reference({.tokens = 1000, .experts = 8, .top_k = 2}, 8);
  expect_bits_of_reference({.tokens = 300,
                            .experts = 1024,
                            .top_k = 16,
                            .expert_groups = 512,
                            .top_groups = 100,
                            .group_score = ExpertGroupScore::best},
                           10);
}

// Few different logits, so that most choices are ties.
TEST(MoeRouteCuda, BreaksTiesLikeTheReference) {
  OCTET_NEEDS_HOPPER();
  Random random(6);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const MoeRouteProblem problem = random_problem(random);
    expect_bits_of_reference(problem, seed, [&](RouteCase& one) {
      Random same(seed);
      for (std::int64_t t = 0; t < problem.tokens; ++t) {
        for (std::int64_t i = 0; i < problem.experts; ++i) {
          one.logits.set(t, i, any_of({0.0f, -0.0f, 1.0f}, same));
        }
      }
      for (std::int64_t i = 0; i < problem.experts; ++i) one.bias.set(0, i, i % 2 ? 0.0f : -0.0f);
    });
  }
}

TEST(MoeRouteCuda, TreatsNonFiniteLogitsAndBiasesLikeTheReference) {
  OCTET_NEEDS_HOPPER();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(7);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const MoeRouteProblem problem = random_problem(random);
    expect_bits_of_reference(problem, seed, [&](RouteCase& one) {
      Random same(seed);
      const auto spoil = [&](Gapped& matrix) {
        for (std::int64_t r = 0; r < matrix.view().rows(); ++r) {
          for (std::int64_t c = 0; c < matrix.view().cols(); ++c) {
            if (same() % 16 != 0) continue;
            matrix.set(r, c, any_of({NAN, kInfinity, -kInfinity, 1e-40f, 200.0f, -200.0f}, same));
          }
        }
      };
      spoil(one.logits);
      if (seed % 3 == 0) spoil(one.bias);
      if (seed % 5 == 0) spoil(one.dweights);
    });
  }
}

}  // namespace
}  // namespace octet::testing
