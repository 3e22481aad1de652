// Fused FP8 outputs equal, in every byte including padding, those of the plain operator followed by
// the quantiser.
#include "core/message.hpp"
#include "ops/rms_norm/case.hpp"
#include "ops/rms_norm/cpu_simd.hpp"

#include <random>

namespace octet {
namespace {

std::vector<std::uint8_t> bytes_of(const QuantizedTensor& tensor) {
  const QuantizedView& view = tensor.view();
  const QuantizedLayout layout(view.values.rows(), view.values.cols(), view.values.dtype,
                               view.block);
  const auto* data = static_cast<const std::uint8_t*>(view.values.data);
  return {data, data + layout.bytes};
}

struct Copies {
  QuantizedTensor out;
  QuantizedTensor transposed;

  explicit Copies(const RmsNormProblem& problem)
      : out(problem.rows, problem.cols, problem.fp8->format,
            problem.fp8->block.value_or(kBlock1x128)),
        transposed(problem.cols, problem.rows, problem.fp8->format,
                   problem.fp8->transposed_block.value_or(kBlock1x128)) {
    for (const QuantizedTensor* copy : {&out, &transposed}) {
      std::memset(copy->view().values.data, 0xA5, bytes_of(*copy).size());
    }
  }
  bool same_as(const Copies& other) const {
    return bytes_of(out) == bytes_of(other.out) &&
           bytes_of(transposed) == bytes_of(other.transposed);
  }
};

std::vector<RmsNormProblem> problems() {
  std::vector<RmsNormProblem> result;
  int number = 0;
  for (const std::int64_t rows : {1, 127, 128, 300}) {
    for (const std::int64_t cols : {1, 33, 128, 513}) {
      RmsNormProblem problem{.rows = rows, .cols = cols};
      problem.dtype = number % 3 == 0 ? Dtype::f32 : number % 3 == 1 ? Dtype::f16 : Dtype::bf16;
      problem.residual = number % 2 == 0;
      Fp8Output& fp8 = problem.fp8.emplace();
      fp8.format = number % 4 < 2 ? Dtype::e4m3 : Dtype::e5m2;
      if (number % 5 == 1) fp8.block.reset();
      if (number % 5 == 2) fp8.transposed_block.reset();
      if (number % 5 == 3) fp8.block = fp8.transposed_block = kBlock128x128;
      if (number % 5 == 4) fp8.block = kBlock128x1;
      fp8.pow2_scales = number % 3 == 0;
      fp8.amax_floor = number % 7 == 0 ? 1e-2f : 0;
      result.push_back(problem);
      ++number;
    }
  }
  return result;
}

TEST(RmsNormFp8, EqualsTheTwoStepsInEveryByte) {
  for (const RmsNormProblem& problem : problems()) {
    const RmsNormCase test(problem, 1);
    std::mt19937 random(5);
    for (const PitchedTensor* tensor : test.inputs()) {
      tensor->fill([&] { return std::normal_distribution<float>()(random); });
    }
    RmsNormForwardArgs args = test.forward_args();
    const Copies wanted(problem);
    args.fp8 = {wanted.out, wanted.transposed};
    const RmsNormForwardPlan unfused = plan_rms_norm_forward(problem, {"unfused", 2});
    const Buffer scratch(unfused.workspace_bytes);
    run(unfused, args, {scratch.data(), scratch.bytes()});
    const std::vector<std::uint8_t> wanted_sum = memory_of(test.sum);
    const std::vector<std::uint8_t> wanted_rstd = memory_of(test.rstd);

    const Machine machine = this_machine(kCpu, 1);
    ASSERT_TRUE(machine.avx2) << "this machine has no AVX2";
    for (const InstructionSet instructions : {InstructionSet::avx2, InstructionSet::avx512}) {
      if (instructions == InstructionSet::avx2 ? !machine.avx2 : !machine.avx512) continue;
      for (const int threads : {1, 3}) {
        const Copies given(problem);
        args.fp8 = {given.out, given.transposed};
        const RmsNormForwardPlan plan = plan_rms_norm_forward(problem, {"cpu_simd", threads});
        const Buffer workspace(plan.workspace_bytes);
        rms_norm_forward_cpu_simd(
            problem, args, {{workspace.data(), workspace.bytes()}, threads, nullptr}, instructions);
        const std::string what =
            text(name(instructions), ", threads ", threads, ": ", describe(problem));
        EXPECT_TRUE(given.same_as(wanted)) << what;
        EXPECT_TRUE(memory_of(test.sum) == wanted_sum) << what;
        EXPECT_TRUE(memory_of(test.rstd) == wanted_rstd) << what;
      }
    }
  }
}

TEST(RmsNormFp8, IsFusedOnTheCpuAndSaysHowItIsNot) {
  RmsNormProblem problem{.rows = 4, .cols = 128};
  problem.fp8.emplace();
  if (this_machine(kCpu, 1).avx2) {
    EXPECT_EQ(plan_rms_norm_forward(problem).implementation, "cpu_simd");
  }
  const RmsNormForwardPlan unfused = plan_rms_norm_forward(problem, {"unfused", 1});
  EXPECT_EQ(unfused.implementation, "unfused");
  EXPECT_NE(unfused.configuration.find(") then quantize cpu_"), std::string::npos)
      << unfused.configuration;
}

}  // namespace
}  // namespace octet
