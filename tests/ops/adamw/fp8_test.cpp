// FP8 output has the bits of quantize on the new weights, and changes nothing else of the step.
#include "ops/adamw/case.hpp"

namespace octet {
namespace {

constexpr std::int64_t kRows[] = {1, 127, 128, 129, 260};
constexpr std::int64_t kCols[] = {1, 33, 64, 128, 200, 256, 513};

TEST(AdamWFp8, HasTheBitsOfTheStepQuantised) {
  for (std::uint64_t seed = 0; seed < 70; ++seed) {
    AdamWProblem problem = matrix_problem(kRows[seed % 5], kCols[seed % 7], seed);
    problem.dtype = kFloats[seed % 3];
    problem.grad_dtype = kFloats[seed / 3 % 3];
    problem.moments_dtype = kMomentDtypes[seed / 2 % 2];
    problem.master = seed % 4 < 2;
    const AdamWCase wanted(problem, seed);
    AdamWCase given(problem, seed);
    const AdamWCopies wanted_copies(problem), copies(problem);
    run_apart(wanted, wanted_copies);
    given.args.fp8 = copies.views();
    given.run_on({"", 3});
    expect_equal(given, wanted, "the plan");
    expect_equal(copies, wanted_copies, problem, "the plan");
    if (::testing::Test::HasFailure()) return;
  }
}

// Weights that are infinite or NaN after the step: the finite elements have the scale.
TEST(AdamWFp8, CastsWeightsThatAreNotFinite) {
  const AdamWProblem problem = matrix_problem(130, 257, 0);
  const AdamWCase wanted(problem);
  AdamWCase given(problem);
  for (const AdamWCase* one : {&wanted, static_cast<const AdamWCase*>(&given)}) {
    for (std::int64_t i = 0; i < problem.count; i += 1001) {
      store_f32(one->args.w.data, i, problem.dtype, i % 2 == 0 ? INFINITY : NAN);
    }
  }
  const AdamWCopies wanted_copies(problem), copies(problem);
  run_apart(wanted, wanted_copies);
  given.args.fp8 = copies.views();
  given.run_on({});
  expect_equal(given, wanted, "the plan");
  expect_equal(copies, wanted_copies, problem, "the plan");
}

TEST(AdamWFp8, ImplementationsSayWhatTheyDo) {
  AdamWProblem problem = matrix_problem(128, 256, 0);
  EXPECT_EQ(plan_adamw(problem).implementation, "unfused");
  EXPECT_EQ(describe(problem),
            "adamw --shape 128x256 --dtype bf16 --grad-dtype bf16 --moments bf16 --grad-scale "
            "--fp8 e4m3 --block 128x128 --transposed-block 128x128 --device cpu");
  EXPECT_TRUE(has_adamw_tile(problem));
  problem.master = true;
  EXPECT_FALSE(has_adamw_tile(problem));
  problem.moments_dtype = Dtype::f32;
  EXPECT_TRUE(has_adamw_tile(problem));
  problem.dtype = Dtype::f16;
  EXPECT_FALSE(has_adamw_tile(problem));
}

}  // namespace
}  // namespace octet
