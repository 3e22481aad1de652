// Each instruction set against the reference, in every byte of the outputs' memory, gaps included;
// and what the number of threads, and other callers, must not change.
#include "ops/rope/rope_case.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace octet::testing {
namespace {

constexpr HeadsLayout kLayouts[] = {HeadsLayout::dense, HeadsLayout::packed,
                                    HeadsLayout::heads_first};

TEST(RopeSimd, EqualsTheReferenceInEveryByte) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const RopeProblem problem = random_rope(random);
    const RotationData rotation(problem.rotation, problem.batch, problem.seq, problem.head_dim,
                                random);
    const HeadsLayout in = any_of(kLayouts, random);
    const bool in_place = random() % 3 == 0;
    const HeadsLayout out = in_place ? in : any_of(kLayouts, random);
    const RopeHeads wanted(problem, in, out);
    fill_normal(wanted.q.view(), random);
    fill_normal(wanted.k.view(), random);
    if (in_place) wanted.begin_in_place();
    rope_by("cpu_reference", problem, wanted.args(rotation, in_place));
    for (const std::string& way : simd_names()) {
      const RopeHeads given(problem, in, out);
      given.q.copy_from(wanted.q);
      given.k.copy_from(wanted.k);
      if (in_place) given.begin_in_place();
      rope_by(way, problem, given.args(rotation, in_place));
      const std::string repeat = way + ", seed " + std::to_string(seed) + ": " + describe(problem);
      ASSERT_TRUE(given.q_out == wanted.q_out) << "q, " << repeat;
      ASSERT_TRUE(given.k_out == wanted.k_out) << "k, " << repeat;
    }
  }
}

RopeProblem large() {  // streamed past the caches
  RopeProblem problem;
  problem.seq = 1030;
  problem.q_heads = 32;
  problem.k_heads = 1;
  problem.head_dim = 128;
  return problem;
}

TEST(RopeThreads, AnyNumberOfThreadsGivesTheSameBits) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  const RopeProblem problem = large();
  Random random(1);
  const RotationData rotation(problem.rotation, 1, problem.seq, problem.head_dim, random);
  const RopeHeads wanted(problem, HeadsLayout::dense, HeadsLayout::dense);
  for (const HeadsMemory* heads : {&wanted.q, &wanted.k}) {
    for_elements(heads->view(), [&](std::int64_t i) {
      static_cast<std::uint16_t*>(heads->view().data)[i] =
          static_cast<std::uint16_t>(0x3F80 + i * 37 % 512);
    });
  }
  rope_by("cpu_reference", problem, wanted.args(rotation, false), 2);
  const auto expect_the_same = [&](const std::string& way, int threads) {
    const RopeHeads given(problem, HeadsLayout::dense, HeadsLayout::dense);
    rope_by(
        way, problem,
        {wanted.q.view(), wanted.k.view(), given.q_out.view(), given.k_out.view(), rotation.args()},
        threads);
    EXPECT_TRUE(given.q_out == wanted.q_out && given.k_out == wanted.k_out)
        << way << ", " << threads << " threads";
  };
  for (const std::string& way : simd_names()) {
    for (const int threads : {1, 3}) expect_the_same(way, threads);
    std::thread other([&] { expect_the_same(way, 2); });
    expect_the_same(way, 2);
    other.join();
  }
}

}  // namespace
}  // namespace octet::testing
