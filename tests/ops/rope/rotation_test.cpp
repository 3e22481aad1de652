// Properties of a rotation on any data: the gates in f64, backward undoes forward, and NaN and
// infinity reach only the outputs that depend on them.
#include "ops/rope/rope_case.hpp"
#include "support/gates.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace octet::testing {
namespace {

TEST(Rope, PassesItsGates) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    expect_all_pass(random_rope(random), rope_implementations(), check_rope);
  }
}

TEST(Rope, IsUndoneByItsInverse) {
  RopeProblem problem{.seq = 100, .q_heads = 2, .head_dim = 64, .dtype = Dtype::f32};
  for (const RopeStyle style : {RopeStyle::rotate_half, RopeStyle::interleaved}) {
    problem.rotation.style = style;
    Random random(3);
    const RotationData rotation(problem, random);
    const RopeHeads heads(problem, HeadsLayout::dense, HeadsLayout::dense);
    fill_normal(heads.q.view(), random);
    heads.begin_in_place();
    run_rope(problem, heads.args(rotation, true));
    EXPECT_FALSE(heads.q == heads.q_out);
    run_rope(problem, heads.args(rotation, true, true));
    const auto* before = static_cast<const float*>(heads.q.view().data);
    const auto* after = static_cast<const float*>(heads.q_out.view().data);
    for_elements(heads.q.view(), [&](std::int64_t i) {
      EXPECT_NEAR(after[i], before[i], 2e-6) << i;  // |x| < 6: a few roundings of f32
    });
  }
}

TEST(Rope, RotatesQAndKInsideAPackedTensorAndLeavesV) {
  RopeProblem problem{.batch = 2, .seq = 7, .q_heads = 4, .k_heads = 2, .head_dim = 64};
  Random random(9);
  const RotationData rotation(problem, random);
  const PackedHeads packed(problem.dtype, 2, 7, 4, 2, 64);
  const PackedHeads out(problem.dtype, 2, 7, 4, 2, 64);
  const PackedHeads in_place(problem.dtype, 2, 7, 4, 2, 64);
  const RopeHeads apart(problem, HeadsLayout::dense, HeadsLayout::dense);
  fill_normal(packed.memory.view(), random);
  in_place.memory.copy_from(packed.memory);
  const RopeForwardPlan plan = plan_rope_forward(problem);
  run(plan, {packed.q(), packed.k(), apart.q_out.view(), apart.k_out.view(), rotation.args()});
  run(plan, {packed.q(), packed.k(), out.q(), out.k(), rotation.args()});
  run(plan, {in_place.q(), in_place.k(), in_place.q(), in_place.k(), rotation.args()});
  for (const PackedHeads* written : {&out, &in_place}) {
    EXPECT_TRUE(equal_elements(written->q(), apart.q_out.view()));
    EXPECT_TRUE(equal_elements(written->k(), apart.k_out.view()));
  }
  EXPECT_FALSE(equal_elements(packed.q(), apart.q_out.view()));
  EXPECT_TRUE(equal_elements(in_place.v(), packed.v()));
}

// Sets one element of q to `value`; returns the indices of the outputs that are not finite.
std::vector<std::int64_t> not_finite(const RopeProblem& problem, const std::string& way,
                                     std::int64_t spoilt, float value) {
  Random random(5);
  const RotationData rotation(problem, random);
  const RopeHeads heads(problem, HeadsLayout::dense, HeadsLayout::dense);
  fill_normal(heads.q.view(), random);
  fill_normal(heads.k.view(), random);
  store_f32(heads.q.view().data, spoilt, problem.dtype, value);
  rope_by(way, problem, heads.args(rotation, false));
  std::vector<std::int64_t> found;
  const auto look = [&](const TensorView& view, std::int64_t number) {
    for_elements(view, [&](std::int64_t i) {
      if (!std::isfinite(load_f32(view.data, i, view.dtype))) found.push_back(number + i);
    });
  };
  look(heads.q_out.view(), 0);
  look(heads.k_out.view(), 1'000'000);
  return found;
}

TEST(Rope, NanAndInfinityReachOnlyTheirPair) {
  RopeProblem problem{.batch = 2, .seq = 3, .q_heads = 2, .k_heads = 2, .head_dim = 100};
  problem.rotation.rotary_dim = 84;
  const std::int64_t head = 4 * problem.head_dim;  // of the third token
  const auto pair_of = [&](std::int64_t i) {
    if (problem.rotation.style == RopeStyle::interleaved) return i ^ 1;
    return i < 42 ? i + 42 : i - 42;
  };
  for (const std::string& way : all_ways()) {
    for (const RopeStyle style : {RopeStyle::rotate_half, RopeStyle::interleaved}) {
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
        problem.rotation.style = style;
        problem.dtype = dtype;
        for (const float value : {NAN, std::numeric_limits<float>::infinity()}) {
          for (const std::int64_t i : {0, 1, 41, 42, 83, 84, 99}) {
            std::vector<std::int64_t> wanted{head + i};
            if (i < 84) wanted.push_back(head + pair_of(i));
            std::sort(wanted.begin(), wanted.end());
            EXPECT_EQ(not_finite(problem, way, head + i, value), wanted)
                << way << ", element " << i << " is " << value << ": " << describe(problem);
          }
        }
      }
    }
  }
}

TEST(Rope, ANanInTheCachesReachesOnlyItsPairs) {
  RopeProblem problem{.seq = 3, .q_heads = 2, .head_dim = 64};
  for (const std::string& way : all_ways()) {
    // A quiet NaN, and a NaN whose mantissa overflows if it is rounded to bf16 carelessly.
    for (const std::uint32_t bits : {0x7FC00000u, 0xFFFFFFFFu}) {
      Random random(7);
      const RotationData rotation(problem, random);
      const RopeHeads heads(problem, HeadsLayout::dense, HeadsLayout::dense);
      fill_normal(heads.q.view(), random);
      static_cast<float*>(rotation.args().sin.data)[1 * 32 + 5] = f32_from_bits(bits);
      rope_by(way, problem, heads.args(rotation, false));
      const TensorView& out = heads.q_out.view();
      for_elements(out, [&](std::int64_t i) {
        const bool of_pair = i / 128 == 1 && i % 32 == 5;
        EXPECT_EQ(std::isnan(load_f32(out.data, i, out.dtype)), of_pair) << way << ", " << i;
      });
    }
  }
}

}  // namespace
}  // namespace octet::testing
