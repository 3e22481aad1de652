// Data whose energy a few numbers have: a few roundings decide its SNRs, so correct kernels are judged
// by the bounds per element, which see what is wrong all the same.
#include "check/gates.hpp"
#include "check/judge/compare_outputs.hpp"
#include "check/product_case.hpp"

namespace octet {
namespace {

std::string data_text(Distribution distribution, std::uint64_t seed) {
  return text(" --seed ", seed, " --distribution ",
              distribution == Distribution::outliers ? "outliers" : "skewed");
}

template <class Problem>
GateReport checked(GateReport (*check)(const Problem&, const DataOptions&), const Problem& problem,
                   Distribution distribution, std::uint64_t seed) {
  const GateReport report = check(problem, data_of(distribution, seed));
  expect_pass(report, describe(problem) + data_text(distribution, seed));
  return report;
}

// A contraction of one: every output is the product of two numbers.
TEST(FewCarriers, OutliersOfOneTokenPass) {
  for (const std::uint64_t seed : {15u, 21u, 28u, 29u}) {
    const Fp8LinearProblem problem{.m = 1, .n = 40, .k = 40};
    const GateReport report = checked(check_fp8_linear, problem, Distribution::outliers, seed);
    EXPECT_TRUE(std::isnan(report.snr_db("G2", "dw")));
  }
}

TEST(FewCarriers, OutliersOfTwoTokensThatAreAddedPass) {
  Fp8LinearProblem problem{.m = 2, .n = 33, .k = 65};
  problem.granularity = Granularity::rowwise;
  problem.format = Dtype::e5m2;
  problem.accumulate_dw = true;
  checked(check_fp8_linear, problem, Distribution::outliers, 217);
}

TEST(FewCarriers, OutliersOfShortGroupsPass) {
  Fp8GroupedLinearProblem problem;
  problem.groups = 3;
  problem.rows = 12;
  problem.n = problem.k = 64;
  checked(check_fp8_grouped_linear, problem, Distribution::outliers, 87);
}

// One row or column has a block of its own, up to 64 times as large as the others.
TEST(FewCarriers, SkewedBlocksOfOneRowPass) {
  for (const auto& [m, seed] : {std::pair{257, 13u}, {129, 35u}}) {
    Fp8LinearProblem problem{.m = m, .n = 129, .k = 33};
    problem.granularity = Granularity::mxfp8;
    const GateReport report = checked(check_fp8_linear, problem, Distribution::skewed, seed);
    EXPECT_TRUE(std::isnan(report.snr_db("G1", "dw")));
  }
}

TEST(FewCarriers, ThousandsOfNormalNumbersHaveSnrs) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ProductCase product({32, 32, 32}, Dtype::bf16, Distribution::normal, kBlock1x128, seed);
    const ProductClaim claim{product.out, product.a.view(), product.b.view()};
    EXPECT_FALSE(std::isnan(judge_g1("d", claim, {}, {}).snr_db)) << seed;
    EXPECT_FALSE(std::isnan(product.judge(product.out).at(0).snr_db)) << seed;
  }
}

TEST(FewCarriers, ThousandsOfOutliersHaveSnrs) {
  const ProductCase product({256, 384, 512}, Dtype::bf16, Distribution::outliers);
  const ProductClaim claim{product.out, product.a.view(), product.b.view()};
  EXPECT_GT(judge_g1("d", claim, {}, {}).snr_db, 25);
  EXPECT_GT(product.judge(product.out).at(0).snr_db, 50);
}

// The rule looks at the reference alone: no output changes which bound applies to it.
TEST(FewCarriers, AWrongOutputKeepsItsSnr) {
  const ProductCase product({64, 64, 64}, Dtype::bf16, Distribution::normal);
  const Tensor spoilt = copy_of(product.out);
  set_element(spoilt, 5, 5, 1e6);
  EXPECT_LT(product.judge(spoilt).at(0).snr_db, 0);
  clear_rectangle(spoilt, 0, 64, 0, 64);
  EXPECT_EQ(product.judge(spoilt).at(0).snr_db, 0);
}

struct FewCarriersCase {
  const char* name;
  ProductShape shape;
  Distribution distribution;
  BlockShape b_block;
  std::uint64_t seed;
};

// Products of few carriers that are spoilt in one place. Judged by the bounds of both devices.
class SpoiltFewCarriers : public testing::TestWithParam<FewCarriersCase> {
 protected:
  SpoiltFewCarriers()
      : product_(GetParam().shape, Dtype::bf16, GetParam().distribution, GetParam().b_block,
                 GetParam().seed),
        spoilt_(copy_of(product_.out)) {
    cuda_.device = DeviceType::cuda;
  }

  // Every scale of an operand in turn, doubled and halved.
  void expect_failures_of_scales(QuantizedTensor& operand) {
    const TensorView& scales = operand.view().scales;
    std::int64_t seen = 0;
    for (std::int64_t row = 0; row < scales.rows(); ++row) {
      for (std::int64_t col = 0; col < scales.cols(); ++col) {
        const double right = decode(scales, row, col);
        for (const double factor : {0.5, 2.0}) {
          set_element(scales, row, col, factor * right);
          product_.multiply(product_.qa, product_.qb, spoilt_);
          set_element(scales, row, col, right);
          // A block of one small number may change no bit of any output.
          if (compare_whole_outputs(spoilt_, product_.out).different == 0) continue;
          expect_failure(text("scale ", row, ", ", col, " times ", factor));
          ++seen;
        }
      }
    }
    EXPECT_GT(seen, scales.rows() * scales.cols()) << "of two for each scale";
  }

  void expect_failure(const std::string& what) const {
    const std::vector<GateResult> results = product_.judge(spoilt_);
    EXPECT_NE(failed_gates(results), "") << what << "\n" << describe(results);
  }

  ProductCase product_;
  Tensor spoilt_;
  JudgeOptions cuda_;
};

TEST_P(SpoiltFewCarriers, AreJudgedPerElementAndPassWhereNothingIsSpoilt) {
  const std::vector<GateResult> results = product_.judge(product_.out);
  EXPECT_EQ(failed_gates(results), "") << describe(results);
  const GateResult g1 = judge_g1("d", {product_.out, product_.a.view(), product_.b.view()}, {}, {});
  EXPECT_TRUE(g1.pass) << g1.value;
  EXPECT_TRUE(std::isnan(g1.snr_db) && std::isnan(results.at(0).snr_db)) << describe(results);
}

TEST_P(SpoiltFewCarriers, AWrongScaleOfAnyBlockFails) {
  expect_failures_of_scales(product_.qa);
  expect_failures_of_scales(product_.qb);
}

TEST_P(SpoiltFewCarriers, AZeroedStripFails) {
  const ProductShape& shape = GetParam().shape;
  const auto expect_zeroed_failure = [&](std::int64_t row, std::int64_t rows, std::int64_t col,
                                         std::int64_t cols) {
    spoilt_ = copy_of(product_.out);
    clear_rectangle(spoilt_, row, rows, col, cols);
    expect_failure(text("zeros from row ", row, ", column ", col));
    // On CUDA the strips of 32 outputs and more see it.
    if (rows * cols < kStripLength) return;
    EXPECT_NE(failed_gates(product_.judge(spoilt_, cuda_)), "") << row << ", " << col;
  };
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t col = 0; col < shape.n; col += 128) {
      expect_zeroed_failure(row, 1, col, std::min<std::int64_t>(128, shape.n - col));
    }
  }
  for (std::int64_t col = 0; col < shape.n; ++col) {
    for (std::int64_t row = 0; row < shape.m; row += 128) {
      expect_zeroed_failure(row, std::min<std::int64_t>(128, shape.m - row), col, 1);
    }
  }
}

TEST_P(SpoiltFewCarriers, OneElementOffByTwoToTheMinusSixFails) {
  const ProductShape& shape = GetParam().shape;
  for (std::int64_t i = 0; i < shape.m * shape.n; i += 97) {
    const std::int64_t row = i / shape.n;
    const std::int64_t col = i % shape.n;
    const double value = decode(product_.out, row, col);
    set_element(spoilt_, row, col, value * (1 + 1.0 / 64));
    expect_failure(text("row ", row, ", column ", col));
    set_element(spoilt_, row, col, value);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Products, SpoiltFewCarriers,
    testing::Values(
        FewCarriersCase{
            "outliers_of_one_token", {40, 40, 1}, Distribution::outliers, kBlock1x128, 15},
        FewCarriersCase{"outliers_1d2d", {33, 65, 70}, Distribution::outliers, kBlock128x128, 3},
        FewCarriersCase{"outliers_1d1d", {64, 64, 4}, Distribution::outliers, kBlock1x128, 4},
        FewCarriersCase{
            "skewed_last_of_contraction", {129, 33, 257}, Distribution::skewed, kBlock1x128, 1},
        FewCarriersCase{
            "skewed_last_row_1d2d", {129, 129, 65}, Distribution::skewed, kBlock128x128, 3}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace octet
