// Each instruction set against the reference, in every byte of the outputs' memory, gaps included.
// The number of threads and concurrent callers must not change a bit.
#include "ops/rope/rope_case.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

TEST(RopeSimd, EqualsTheReferenceInEveryByte) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomRope call(seed);
    const RopeHeads& wanted = call.heads;
    rope_by("cpu_reference", call.problem, call.args());
    for (const std::string& way : simd_names()) {
      const RopeHeads given(call.problem, call.in, call.out);
      given.q.copy_from(wanted.q);
      given.k.copy_from(wanted.k);
      if (call.in_place) given.begin_in_place();
      rope_by(way, call.problem, given.args(call.rotation, call.in_place, call.inverse));
      const std::string repeat =
          way + ", seed " + std::to_string(seed) + ": " + describe(call.problem);
      ASSERT_TRUE(given.q_out == wanted.q_out) << "q, " << repeat;
      ASSERT_TRUE(given.k_out == wanted.k_out) << "k, " << repeat;
    }
  }
}

RopeProblem large() {  // large enough for streaming stores
  RopeProblem problem{.seq = 1030, .q_heads = 32, .k_heads = 1, .head_dim = 128};
  return problem;
}

TEST(RopeThreads, AnyNumberOfThreadsGivesTheSameBits) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  const RopeProblem problem = large();
  Random random(1);
  const RotationData rotation(problem, random);
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
  by_any_threads(simd_names(), expect_the_same);
}

}  // namespace
}  // namespace octet::testing
