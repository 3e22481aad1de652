// Each instruction set against the reference, forward and backward, in every byte of the outputs'
// memory. The number of threads and concurrent callers must not change a bit.
#include "ops/rms_norm_rope/norm_rope_case.hpp"

#include <gtest/gtest.h>

#include <cfenv>

namespace octet::testing {
namespace {

bool taken_by_simd(const RmsNormRopeProblem& problem) {
  const Machine machine = this_machine(kCpu, 1);
  return kRmsNormRopeForwardCpuSimd.refuse(problem, machine).empty();
}

// Weights are converted before the parallel loops.
TEST(RmsNormRopeSimd, RoundsToNearestWhateverTheCallersMode) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    RmsNormRopeProblem problem = random_norm_rope(random);
    problem.one_plus_weight = true;
    problem.weight_dtype = Dtype::f32;
    if (!taken_by_simd(problem)) continue;
    ++compared;
    const RotationData rotation(problem, random);
    const NormRopeCall wanted(problem, HeadsLayout::dense, HeadsLayout::dense);
    for (const NormRopeSide* side : {&wanted.q, &wanted.k}) side->fill(random);
    norm_rope_by("cpu_simd", problem, wanted, rotation.args());
    const NormRopeCall given(problem, HeadsLayout::dense, HeadsLayout::dense);
    given.q.fill_from(wanted.q);
    given.k.fill_from(wanted.k);
    std::fesetround(FE_UPWARD);
    norm_rope_by("cpu_simd", problem, given, rotation.args());
    const int mode = std::fegetround();
    std::fesetround(FE_TONEAREST);
    ASSERT_EQ(mode, FE_UPWARD) << "the caller's mode stays";
    ASSERT_TRUE(given.q == wanted.q) << "q, seed " << seed << ": " << describe(problem);
    ASSERT_TRUE(given.k == wanted.k) << "k, seed " << seed << ": " << describe(problem);
  }
  EXPECT_GT(compared, 20);
}

TEST(RmsNormRopeSimd, EqualsTheReferenceInEveryByte) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const RmsNormRopeProblem problem = random_norm_rope(random);
    if (!taken_by_simd(problem)) continue;
    ++compared;
    const RotationData rotation(problem, random);
    const HeadsLayout in = any_of(kHeadsLayouts, random);
    const InPlace in_place = any_of({InPlace::no, InPlace::no, InPlace::x, InPlace::dout}, random);
    const HeadsLayout out = in_place == InPlace::no ? any_of(kHeadsLayouts, random) : in;
    NormRopeCall wanted(problem, in, out);
    wanted.in_place = in_place;
    for (const NormRopeSide* side : {&wanted.q, &wanted.k}) {
      side->fill(random);
      side->begin(in_place);
    }
    norm_rope_by("cpu_reference", problem, wanted, rotation.args());
    for (const std::string& way : simd_names()) {
      NormRopeCall given(problem, in, out);
      given.in_place = in_place;
      given.q.fill_from(wanted.q);
      given.k.fill_from(wanted.k);
      given.q.begin(in_place);
      given.k.begin(in_place);
      norm_rope_by(way, problem, given, rotation.args());
      const std::string repeat = way + ", seed " + std::to_string(seed) + ": " + describe(problem);
      ASSERT_TRUE(given.q == wanted.q) << "q, " << repeat;
      ASSERT_TRUE(given.k == wanted.k) << "k, " << repeat;
    }
  }
  EXPECT_TRUE(compared > 200 || simd_names().empty()) << compared;
}

TEST(RmsNormRopeThreads, AnyNumberOfThreadsGivesTheSameBits) {
  for (const NormScope norm : {NormScope::row, NormScope::head}) {
    RmsNormRopeProblem problem{
        .batch = 2, .seq = 75, .q_heads = 4, .k_heads = 2, .head_dim = 64, .norm = norm};
    Random random(1);
    const RotationData rotation(problem, random);
    NormRopeCall wanted(problem, HeadsLayout::dense, HeadsLayout::dense);
    wanted.q.fill(random);
    wanted.k.fill(random);
    norm_rope_by("cpu_reference", problem, wanted, rotation.args(), 1);
    const auto expect_the_same = [&](const std::string& way, int threads) {
      NormRopeCall given(problem, HeadsLayout::dense, HeadsLayout::dense);
      given.q.fill_from(wanted.q);
      given.k.fill_from(wanted.k);
      norm_rope_by(way, problem, given, rotation.args(), threads);
      EXPECT_TRUE(given.q == wanted.q && given.k == wanted.k) << way << ", " << threads;
    };
    by_any_threads(all_ways(), expect_the_same);
  }
}

}  // namespace
}  // namespace octet::testing
