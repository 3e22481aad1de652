// NaN and infinity reach the outputs that depend on them, and no others.
#include "ops/rms_norm_rope/norm_rope_case.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

namespace octet::testing {
namespace {

// Indices of the elements of a tensor that are not finite.
std::vector<std::int64_t> not_finite(const TensorView& view) {
  std::vector<std::int64_t> found;
  for_elements(view, [&](std::int64_t i) {
    if (!std::isfinite(load_f32(view.data, i, view.dtype))) found.push_back(i);
  });
  return found;
}
std::vector<std::int64_t> range(std::int64_t begin, std::int64_t count) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(begin + i);
  return result;
}

class RmsNormRopeNan : public ::testing::TestWithParam<NormScope> {
 protected:
  RmsNormRopeNan() {
    problem.seq = 5;
    problem.q_heads = 2;
    problem.k_heads = 1;
    problem.head_dim = 40;
    problem.norm = GetParam();
    problem.rotation.rotary_dim = 32;
  }

  // Fills a call, changes it with `spoil`, and runs it.
  void run(const std::string& way, const std::function<void(const NormRopeCall&)>& spoil) {
    Random random(2);
    const RotationData rotation(problem, random);
    call = std::make_unique<NormRopeCall>(problem, HeadsLayout::dense, HeadsLayout::dense);
    call->q.fill(random);
    call->k.fill(random);
    spoil(*call);
    norm_rope_by(way, problem, *call, rotation.args());
    EXPECT_TRUE(not_finite(call->k.out.view()).empty() && not_finite(call->k.dx.view()).empty() &&
                not_finite(call->k.dg).empty() && not_finite(call->k.rstd).empty());
  }
  // The elements that share a norm with element `index` of q.
  std::vector<std::int64_t> norm_of(std::int64_t index) const {
    const std::int64_t length = problem.head_dim * (problem.norm == NormScope::row ? 2 : 1);
    return range(index / length * length, length);
  }
  // The elements of dg that element `index`, and the one rotated with it, contribute to.
  std::vector<std::int64_t> weights_of(std::int64_t index) const {
    const std::int64_t in_head = index % 40;
    const std::int64_t head = problem.norm == NormScope::row ? index % 80 - in_head : 0;
    if (in_head >= 32) return {head + in_head};
    return {head + in_head % 16, head + in_head % 16 + 16};
  }

  RmsNormRopeProblem problem;
  std::unique_ptr<NormRopeCall> call;
};

// A NaN in x makes rstd of its norm NaN, and with it everything that shares the norm.
TEST_P(RmsNormRopeNan, InXReachesOnlyItsNorm) {
  for (const std::string& way : all_ways()) {
    for (const std::int64_t index : {3 * 80 + 7, 3 * 80 + 75}) {
      run(way,
          [&](const NormRopeCall& c) { store_f32(c.q.x.view().data, index, problem.dtype, NAN); });
      EXPECT_EQ(not_finite(call->q.out.view()), norm_of(index)) << way;
      EXPECT_EQ(not_finite(call->q.dx.view()), norm_of(index)) << way;
      const std::int64_t norms = problem.norm == NormScope::row ? 1 : 2;
      EXPECT_EQ(not_finite(call->q.rstd),
                range(3 * norms + (norms == 2 && index % 80 >= 40 ? 1 : 0), 1));
      EXPECT_EQ(not_finite(call->q.dg).size(), problem.norm == NormScope::row ? 80u : 40u) << way;
    }
  }
}

// An infinite x has rstd = 0. It becomes NaN itself (infinity * 0), as does the element rotated
// with it.
TEST_P(RmsNormRopeNan, InfinityInXReachesItsPairForward) {
  for (const std::string& way : all_ways()) {
    const std::int64_t index = 3 * 80 + 7;
    run(way, [&](const NormRopeCall& c) {
      store_f32(c.q.x.view().data, index, problem.dtype, std::numeric_limits<float>::infinity());
    });
    EXPECT_EQ(not_finite(call->q.out.view()), (std::vector<std::int64_t>{index, index + 16}))
        << way;
    EXPECT_TRUE(not_finite(call->q.rstd).empty()) << way;
  }
}

// dout reaches the norm of its token through the mean, and the elements of dg it contributes to.
TEST_P(RmsNormRopeNan, InDoutReachesItsNormAndItsShareOfDg) {
  for (const std::string& way : all_ways()) {
    for (const std::int64_t index : {2 * 80 + 20, 2 * 80 + 39, 4 * 80 + 41}) {
      run(way, [&](const NormRopeCall& c) {
        store_f32(c.q.dout.view().data, index, problem.dtype, NAN);
      });
      EXPECT_TRUE(not_finite(call->q.out.view()).empty()) << way;
      EXPECT_EQ(not_finite(call->q.dx.view()), norm_of(index)) << way;
      EXPECT_EQ(not_finite(call->q.dg), weights_of(index)) << way << ", " << index;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, RmsNormRopeNan, ::testing::Values(NormScope::row, NormScope::head),
                         [](const auto& scope) {
                           return scope.param == NormScope::row ? "row" : "head";
                         });

}  // namespace
}  // namespace octet::testing
