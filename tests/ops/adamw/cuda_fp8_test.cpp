// FP8 output on Hopper has the bits of the step and the quantiser on the CPU: fused, unfused, at
// edges and off every boundary, and with weights that are not finite.
#include "ops/adamw/cuda_case.hpp"
#include "support/gates.hpp"

namespace octet::testing {
namespace {

void expect_bits_of_cpu(const AdamWProblem& problem, std::uint64_t seed, std::int64_t shift = 0,
                        const char* backend = "cuda_sm90_tile") {
  const AdamWCase wanted(problem, seed, shift), given(problem, seed, shift);
  const AdamWCopies wanted_copies(problem), copies(problem);
  run_apart(wanted, wanted_copies);
  run_on_cuda(given, shift, backend, &copies);
  expect_equal(given, wanted, backend);
  expect_equal(copies, wanted_copies, problem, backend);
}

constexpr std::int64_t kRows[] = {1, 127, 128, 129, 260, 512};
constexpr std::int64_t kCols[] = {1, 33, 64, 128, 200, 256, 513};

TEST(AdamWFp8Cuda, HasTheBitsOfTheStepQuantised) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 0; seed < 84; ++seed) {
    AdamWProblem problem = matrix_problem(kRows[seed % 6], kCols[seed % 7], seed);
    for (const bool master : {false, true}) {
      problem.master = master;
      problem.moments_dtype = master ? Dtype::f32 : Dtype::bf16;
      expect_bits_of_cpu(problem, seed);
      expect_bits_of_cpu(problem, seed, 1);
      expect_bits_of_cpu(problem, seed, 0, "unfused");
      if (HasFailure()) return;
    }
  }
}

// Other dtypes have no fused kernel, and run all the same.
TEST(AdamWFp8Cuda, HasTheBitsInEveryDtype) {
  OCTET_NEEDS_HOPPER();
  for_every_problem(130 * 256, [](AdamWProblem problem) {
    problem.rows = 130;
    problem.cols = 256;
    problem.fp8 = Fp8Output{Dtype::e4m3, kBlock128x128, kBlock128x128};
    expect_bits_of_cpu(problem, 5, 0, "");
  });
}

// In whole tiles and in those at the edge: the tile is cast again with the scale of what is finite.
TEST(AdamWFp8Cuda, CastsWeightsThatAreNotFinite) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    AdamWProblem problem = matrix_problem(300, 264, 0);
    problem.fp8->format = format;
    const AdamWCase wanted(problem), given(problem);
    for (const AdamWCase* one : {&wanted, &given}) {
      for (std::int64_t i = 0; i < problem.count; i += 1001) {
        store_f32(one->args.w.data, i, problem.dtype, i % 2 == 0 ? INFINITY : NAN);
      }
    }
    const AdamWCopies wanted_copies(problem), copies(problem);
    run_apart(wanted, wanted_copies);
    run_on_cuda(given, 0, "cuda_sm90_tile", &copies);
    expect_equal(given, wanted, "cuda_sm90_tile");
    expect_equal(copies, wanted_copies, problem, "cuda_sm90_tile");
  }
}

// eps 0 and no gradient: 0 / 0 beyond the edge must not reach the scales of the tile.
TEST(AdamWFp8Cuda, NothingBeyondTheMatrixReachesTheScales) {
  OCTET_NEEDS_HOPPER();
  const AdamWProblem problem = matrix_problem(3, 5, 0);
  AdamWCase wanted(problem), given(problem);
  for (AdamWCase* one : {&wanted, &given}) one->args.eps = 0;
  const AdamWCopies wanted_copies(problem), copies(problem);
  run_apart(wanted, wanted_copies);
  run_on_cuda(given, 0, "cuda_sm90_tile", &copies);
  expect_equal(given, wanted, "cuda_sm90_tile");
  expect_equal(copies, wanted_copies, problem, "cuda_sm90_tile");
}

TEST(AdamWFp8Cuda, PassesTheGatesOnALayer) {
  OCTET_NEEDS_HOPPER();
  for (const bool master : {false, true}) {
    AdamWProblem problem = matrix_problem(14336, 4096, 0);
    problem.master = master;
    problem.moments_dtype = master ? Dtype::f32 : Dtype::bf16;
    problem.device = OnCuda::kDevice;
    EXPECT_EQ(plan_adamw(problem).implementation, "cuda_sm90_tile");
    expect_pass(check_adamw(problem, {}), describe(problem));
  }
}

}  // namespace
}  // namespace octet::testing
