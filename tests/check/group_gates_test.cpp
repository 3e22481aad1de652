// Q, G5 and G6 over copies of groups and batches that are corrupted on purpose.
#include "check/judge/written_groups.hpp"
#include "check/product_case.hpp"
#include "core/views.hpp"
#include "ops/fp8_output/checks.hpp"

#include <functional>

namespace octet {
namespace {

constexpr std::int64_t kRows = 300;
constexpr std::int64_t kCols = 70;

// The results of gates that failed: "Q out, G6 transposed".
std::string failed(const GateReport& report) {
  std::string result;
  for (const GateResult& gate : report.results) {
    if (!gate.pass) result += (result.empty() ? "" : ", ") + gate.gate + " " + gate.tensor;
  }
  return result;
}

std::uint8_t& byte(const TensorView& values, std::int64_t offset) {
  return static_cast<std::uint8_t*>(values.data)[offset];
}
float& number(const TensorView& scales, std::int64_t offset) {
  return static_cast<float*>(scales.data)[offset];
}

class GroupGates : public testing::TestWithParam<BlockShape> {
 protected:
  // Runs both calls, lets `spoil` change the first call's copies, and judges them.
  std::string failures(const std::function<void(const Fp8Copies&)>& spoil,
                       GroupTail tail = GroupTail::zero) const {
    const std::vector<std::int64_t> sizes{5, 0, 129, 128};
    const QuantizeProblem problem{
        .rows = kRows, .cols = kCols, .transposed_block = GetParam(), .groups = 4, .tail = tail};
    Tensor input(Dtype::bf16, {kRows, kCols});
    fill_random(input, Distribution::normal, {1, 0}, 1);
    const Tensor table = make_group_table(sizes, kRows, kCpu);
    const Fp8GroupsWrittenTwice written(options_of(problem), sizes, kRows, kCols, tail, kCpu);
    for (int call = 0; call < 2; ++call) {
      const Fp8Copies copies = written.copies(call);
      run(plan_quantize(problem), {input, copies.out, copies.transposed, table, {}});
    }
    spoil(written.copies(0));
    GateReport report;
    written.judge("", input, {}, report);
    return failed(report);
  }
};

TEST_P(GroupGates, PassWhereEachGroupIsRight) {
  EXPECT_EQ(failures([](const Fp8Copies&) {}), "");
  EXPECT_EQ(failures([](const Fp8Copies&) {}, GroupTail::untouched), "");
}

TEST_P(GroupGates, SeeOneWrongValueOfARow) {
  EXPECT_EQ(failures([](const Fp8Copies& copies) { byte(copies.out.values, 261 * 128) ^= 1; }),
            "Q out, G5 out");
}

TEST_P(GroupGates, SeeOneWrongScaleOfARow) {
  EXPECT_EQ(failures([](const Fp8Copies& copies) { number(copies.out.scales, 4) *= 2; }),
            "Q out, G5 out");
}

TEST_P(GroupGates, SeeATailThatIsNotZero) {
  EXPECT_EQ(failures([](const Fp8Copies& copies) { byte(copies.out.values, 299 * 128) = 1; }),
            "Q out, G5 out");
  EXPECT_EQ(failures([](const Fp8Copies& copies) { number(copies.out.scales, 299) = 2; }),
            "Q out, G5 out");
}

TEST_P(GroupGates, SeeATailThatIsNotUntouched) {
  const auto spoil = [](const Fp8Copies& copies) { byte(copies.out.values, 262 * 128) = 0; };
  EXPECT_EQ(failures(spoil, GroupTail::untouched), "G5 out, G6 out");
  const auto scale = [](const Fp8Copies& copies) { number(copies.out.scales, 262) = 1; };
  EXPECT_EQ(failures(scale, GroupTail::untouched), "G5 out, G6 out");
}

TEST_P(GroupGates, SeeOneWrongTokenOrScale) {
  // Blocks 0, 1, 2 and 3 have 5, 128, 1 and 128 rows.
  for (const std::int64_t block : {0, 1, 2, 3}) {
    const auto value = [=](const Fp8Copies& copies) {
      byte(copies.transposed.values, (block * kCols + 69) * 128) ^= 1;
    };
    EXPECT_EQ(failures(value), "Q transposed, G5 transposed") << block;
    const auto scale = [=](const Fp8Copies& copies) {
      number(copies.transposed.scales, block * copies.transposed.scales.strides[0]) *= 2;
    };
    EXPECT_EQ(failures(scale), "Q transposed, G5 transposed") << block;
  }
}

TEST_P(GroupGates, SeeATokenBehindTheGroupThatIsNotZero) {
  const auto spoil = [](const Fp8Copies& copies) {
    byte(copies.transposed.values, 2 * kCols * 128 + 1) = 1;
  };
  EXPECT_EQ(failures(spoil), "Q transposed, G5 transposed");
}

TEST_P(GroupGates, SeeAWriteBehindTheLastBlock) {
  const auto value = [](const Fp8Copies& copies) {
    byte(copies.transposed.values, 4 * kCols * 128) = 0;
  };
  EXPECT_EQ(failures(value), "G5 transposed, G6 transposed");
  const auto scale = [](const Fp8Copies& copies) {
    number(copies.transposed.scales, 4 * copies.transposed.scales.strides[0]) = 1;
  };
  EXPECT_EQ(failures(scale), "G5 transposed, G6 transposed");
}

TEST_P(GroupGates, SeeAWriteOutside) {
  const auto before = [](const Fp8Copies& copies) { byte(copies.transposed.values, -1) = 0; };
  EXPECT_EQ(failures(before), "G6 transposed");
  const auto padding = [](const Fp8Copies& copies) { byte(copies.out.values, 70) = 1; };
  EXPECT_EQ(failures(padding), "G6 out");
}

std::string batch_failures(BlockShape block, const std::function<void(const Fp8Copies&)>& spoil) {
  const QuantizeProblem problem{
      .rows = 130, .cols = kCols, .block = block, .transposed_block = block, .batch = 3};
  Tensor input(Dtype::bf16, {3, 130, kCols});
  fill_random(make_view(input.data(), Dtype::bf16, {390, kCols}), Distribution::normal, {1, 0}, 1);
  const Fp8BatchWrittenTwice written(options_of(problem), 3, 130, kCols, kCpu);
  for (int call = 0; call < 2; ++call) {
    const Fp8Copies copies = written.copies(call);
    run(plan_quantize(problem), {input, copies.out, copies.transposed});
  }
  spoil(written.copies(0));
  GateReport report;
  written.judge(input, {}, report);
  return failed(report);
}

TEST_P(GroupGates, JudgeEveryMatrixOfABatch) {
  EXPECT_EQ(batch_failures(GetParam(), [](const Fp8Copies&) {}), "");
  for (const std::int64_t matrix : {0, 1, 2}) {
    const auto value = [=](const Fp8Copies& copies) {
      byte(copies.out.values, (matrix * 130 + 129) * 128) ^= 1;
    };
    EXPECT_EQ(batch_failures(GetParam(), value), "Q out, G5 out") << matrix;
    const auto scale = [=](const Fp8Copies& copies) {
      number(copies.transposed.scales, matrix * copies.transposed.scales.strides[0]) *= 2;
    };
    EXPECT_EQ(batch_failures(GetParam(), scale), "Q transposed, G5 transposed") << matrix;
  }
  const auto before = [](const Fp8Copies& copies) { byte(copies.transposed.values, -1) = 0; };
  EXPECT_EQ(batch_failures(GetParam(), before), "G6 transposed");
}

INSTANTIATE_TEST_SUITE_P(Blocks, GroupGates, testing::Values(kBlock1x128, kBlock128x128),
                         [](const auto& test) { return "transposed_" + name(test.param); });

}  // namespace
}  // namespace octet
