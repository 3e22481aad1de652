// The plan says what runs. Bad input is refused with the argument, what was given and what was
// wanted.
#include "ops/quantize/paths.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

QuantizeProblem small_problem() { return {.rows = 8, .cols = 200}; }

template <class Call>
void expect_error(ErrorCode code, const std::string& part, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(QuantizePlan, NamesImplementationInstructionsAndThreads) {
  const QuantizePlan plan = plan_quantize(small_problem(), {"cpu_simd", 2});
  EXPECT_EQ(plan.implementation, "cpu_simd");
  EXPECT_EQ(plan.configuration, name(simd_paths().back()) + " threads=2");
  EXPECT_EQ(plan.workspace_bytes, 0u);
}

TEST(QuantizePlan, TakesTheReferenceWithoutAvx2) {
  EXPECT_EQ(kQuantizeCpuSimd.refuse(small_problem(), Machine{}), "this CPU has no AVX2");
  EXPECT_EQ(kQuantizeCpuReference.refuse(small_problem(), Machine{}), "");
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(small_problem(), Machine{}), "the problem is on cpu");
  EXPECT_EQ(quantize_implementations().back().name, std::string("cpu_reference"));
}

TEST(QuantizePlan, ConfigurationFollowsTheMachine) {
  Machine machine;
  machine.avx2 = true;
  machine.threads = 5;
  EXPECT_EQ(kQuantizeCpuSimd.plan(small_problem(), machine).configuration, "avx2 threads=5");
  machine.avx512 = true;
  EXPECT_EQ(kQuantizeCpuSimd.plan(small_problem(), machine).configuration, "avx512 threads=5");
}

TEST(QuantizeRefuses, ProblemsItCannotMean) {
  const auto plan_with = [](auto change) {
    QuantizeProblem problem = small_problem();
    change(problem);
    return [problem] { plan_quantize(problem); };
  };
  expect_error(ErrorCode::invalid_argument, "quantize: rows must be at least 1, got 0",
               plan_with([](auto& p) { p.rows = 0; }));
  expect_error(ErrorCode::invalid_argument,
               "quantize: input_dtype must be f32, f16 or bf16, got e4m3",
               plan_with([](auto& p) { p.input_dtype = Dtype::e4m3; }));
  expect_error(ErrorCode::unsupported,
               "quantize: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or "
               "32x32, got 1x64",
               plan_with([](auto& p) {
                 p.block = BlockShape{1, 64};
               }));
  expect_error(ErrorCode::invalid_argument, "there is nothing to write",
               plan_with([](auto& p) { p.block = std::nullopt; }));
  expect_error(ErrorCode::invalid_argument, "amax_floor must be finite and at least 0, got -1",
               plan_with([](auto& p) { p.amax_floor = -1; }));
}

TEST(QuantizeRefuses, ArgumentsThatDoNotFit) {
  const QuantizeProblem problem = small_problem();
  const QuantizePlan plan = plan_quantize(problem);
  const Input input(problem.rows, problem.cols, problem.input_dtype);
  const ForeignCopies copies(problem);
  const auto run_with = [&](auto change) {
    QuantizeArgs args = copies.args(input.view());
    change(args);
    return [&plan, args] { run(plan, args); };
  };
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, "quantize: input has a null pointer",
               run_with([](auto& a) { a.input.data = nullptr; }));
  expect_error(invalid, "quantize: rows of out must start on 16-byte boundaries",
               run_with([](auto& a) { a.out.values.strides[0] = 201; }));
  expect_error(invalid, "quantize: scale of out must be [8, 2] for 1x128 blocks",
               run_with([](auto& a) { a.out.scales.shape[1] = 1; }));
  expect_error(invalid, "quantize: out must have 1x128 blocks, got 128x128",
               run_with([](auto& a) { a.out.block = kBlock128x128; }));
  expect_error(invalid, "quantize: output out overlaps input",
               run_with([](auto& a) { a.input.data = a.out.values.data; }));
  for (std::uint8_t byte : copies.out.values()) ASSERT_EQ(byte, 0xA5) << "something was written";
}

}  // namespace
}  // namespace octet
