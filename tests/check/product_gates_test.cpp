// G1 to G4 over outputs that are corrupted on purpose: which gate detects what.
#include "check/product_case.hpp"
#include "core/views.hpp"

#include <map>

namespace octet {
namespace {

// Blocks of 32 that differ by 2^17 cannot be folded: the small ones lose their bits, which shows where
// nothing else is multiplied by anything but zero.
TEST(FoldedProduct, MFailsWhereBlocksOfOneScaleDifferTooMuch) {
  const Tensor a(Dtype::f32, {64, 128});
  const Tensor b(Dtype::f32, {64, 128});
  fill_random(a, Distribution::normal, {1, 0}, 1);
  fill_random(b, Distribution::normal, {1, 1}, 1);
  const auto folded = [&] {
    OracleRules rules;
    rules.fold_mx = true;
    return judge_folding("y", {{}, a.view(), b.view(), {}}, rules, rules, {});
  };
  EXPECT_TRUE(folded().pass) << folded().value;
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t k = 0; k < 128; ++k) {
      if (k / 32 == 1) static_cast<float*>(a.data())[row * 128 + k] *= 0x1p-17f;
      if (k / 32 != 1) static_cast<float*>(b.data())[row * 128 + k] = 0;
    }
  }
  EXPECT_FALSE(folded().pass) << folded().value;
  EXPECT_LT(folded().snr_db, 40);
}

class SpoiltProduct : public testing::TestWithParam<ProductKind> {
 protected:
  SpoiltProduct() : product_(product_of(GetParam())), spoilt_(copy_of(product_.out)) {}

  // Made once per kind: the products take longer than the tests.
  static ProductCase& product_of(const ProductKind& kind) {
    static std::map<std::string, ProductCase> products;
    return products
        .try_emplace(kind.name, ProductShape{}, kind.out, kind.distribution, kind.b_block)
        .first->second;
  }

  std::string failed() const { return failed_gates(product_.judge(spoilt_)); }

  // The gates that fail when one scale of one operand is replaced by its neighbour's.
  std::string failed_with_scale(QuantizedTensor& operand, std::int64_t row, std::int64_t col) {
    const TensorView& scales = operand.view().scales;
    auto* data = static_cast<float*>(scales.data);
    float& scale = data[row * scales.strides[0] + col * scales.strides[1]];
    const float right = scale;
    const float neighbour = data[(row + 1) * scales.strides[0] + col * scales.strides[1]];
    EXPECT_NE(right, neighbour) << "nothing to see";
    scale = neighbour;
    product_.multiply(product_.qa, product_.qb, spoilt_);
    scale = right;
    return failed();
  }

  ProductCase& product_;
  Tensor spoilt_;
};

TEST_P(SpoiltProduct, PassesWhereNothingIsSpoilt) {
  EXPECT_EQ(failed(), "") << describe(product_.judge(spoilt_));
}

TEST_P(SpoiltProduct, G2AndG3SeeAZeroedTile) {
  clear_rectangle(spoilt_, 128, 128, 256, 128);
  EXPECT_EQ(failed(), "G2 G3");
}

TEST_P(SpoiltProduct, G3SeesAZeroedRowStrip) {
  clear_rectangle(spoilt_, 200, 1, 128, 128);
  EXPECT_EQ(failed(), "G2 G3");
}

TEST_P(SpoiltProduct, G3SeesAZeroedColumnStrip) {
  clear_rectangle(spoilt_, 0, 128, 383, 1);
  EXPECT_EQ(failed(), "G2 G3");
}

TEST_P(SpoiltProduct, G3SeesTheScaleOfANeighbouring1x128Block) {
  EXPECT_EQ(failed_with_scale(product_.qa, 77, 2), GetParam().failed_with_scale_of_a);
}

TEST_P(SpoiltProduct, G3SeesTheScaleOfANeighbouringBlockOfB) {
  EXPECT_EQ(failed_with_scale(product_.qb, 1, 3), GetParam().failed_with_scale_of_b);
}

TEST_P(SpoiltProduct, G3SeesOneElementOffByTwoToTheMinusSix) {
  for (const std::int64_t i : {0, 129, 12345, 50000, 98303}) {
    const std::int64_t row = i / 384;
    const std::int64_t col = i % 384;
    const double value = decode(product_.out, row, col);
    set_element(spoilt_, row, col, value * (1 + 1.0 / 64));
    const std::vector<GateResult> results = product_.judge(spoilt_);
    EXPECT_FALSE(results.at(1).pass) << "element " << i << "\n" << describe(results);
    set_element(spoilt_, row, col, value);
  }
}

TEST_P(SpoiltProduct, G3NamesWhereItFailed) {
  clear_rectangle(spoilt_, 200, 1, 128, 128);
  const GateResult g3 = product_.judge(spoilt_).at(1);
  EXPECT_EQ(g3.gate, "G3");
  EXPECT_NE(g3.value.find("row 200, columns 128..255"), std::string::npos) << g3.value;
}

TEST_P(SpoiltProduct, AnElementThatIsNotANumberFails) {
  set_element(spoilt_, 3, 3, NAN);
  EXPECT_EQ(failed(), "G2 G3");
  set_element(spoilt_, 3, 3, INFINITY);
  EXPECT_EQ(failed(), "G2 G3");
}

INSTANTIATE_TEST_SUITE_P(
    Products, SpoiltProduct,
    testing::Values(ProductKind{"bf16_normal_1d2d", Dtype::bf16, Distribution::normal,
                                kBlock128x128, "G3", "G2 G3"},
                    ProductKind{"bf16_skewed_1d1d", Dtype::bf16, Distribution::skewed, kBlock1x128,
                                "G3", "G3"},
                    ProductKind{"f32_normal_1d1d", Dtype::f32, Distribution::normal, kBlock1x128,
                                "G2 G3", "G2 G3"},
                    ProductKind{"f32_one_signed_1d2d", Dtype::f32, Distribution::one_signed,
                                kBlock128x128, "G2 G3", "G2 G3"},
                    ProductKind{"f16_normal_1d2d", Dtype::f16, Distribution::normal, kBlock128x128,
                                "G3", "G2 G3"}),
    [](const auto& test) { return test.param.name; });

// The reason for the strips and elements of G3.
TEST(ProductGates, TheSnrOfTheWholeIsBlindToOneElement) {
  const ProductCase product({}, Dtype::bf16, Distribution::normal);
  const Tensor spoilt = copy_of(product.out);
  set_element(spoilt, 100, 100, decode(product.out, 100, 100) * (1 + 1.0 / 64));
  EXPECT_EQ(failed_gates(product.judge(spoilt)), "G3");
}

TEST(ProductGates, SmallOutputsAreJudgedByTheBoundPerElement) {
  for (const ProductShape shape : {ProductShape{1, 1, 1}, {1, 129, 127}, {5, 3, 700}}) {
    const ProductCase product(shape, Dtype::f32, Distribution::normal);
    const std::vector<GateResult> right = product.judge(product.out);
    EXPECT_EQ(failed_gates(right), "") << describe(right);
    EXPECT_TRUE(std::isnan(right.at(0).snr_db));
    const Tensor spoilt = copy_of(product.out);
    set_element(spoilt, 0, 0, decode(product.out, 0, 0) * (1 + 1.0 / 64));
    EXPECT_EQ(failed_gates(product.judge(spoilt)), "G2 G3");
  }
}

TEST(ProductGates, OutputsOfZerosAreExactlyZero) {
  ProductCase product({40, 40, 130}, Dtype::f32, Distribution::normal);
  const TensorView& values = product.qa.view().values;
  std::memset(values.data, 0, static_cast<std::size_t>(values.strides[0]));  // row 0 of a
  clear_rectangle(product.out, 0, 1, 0, 40);
  EXPECT_EQ(failed_gates(product.judge(product.out)), "");
  set_element(product.out, 0, 7, 1e-30);
  EXPECT_EQ(failed_gates(product.judge(product.out)), "G3");
}

TEST(ProductGates, WhatDependsOnNaNIsNotFiniteAndNothingElse) {
  ProductCase product({40, 40, 130}, Dtype::bf16, Distribution::normal);
  static_cast<std::uint8_t*>(product.qa.view().values.data)[5] = 0x7F;
  EXPECT_EQ(failed_gates(product.judge(product.out)), "G3") << "row 0 should be NaN";
  for (std::int64_t col = 0; col < 40; ++col) set_element(product.out, 0, col, NAN);
  EXPECT_EQ(failed_gates(product.judge(product.out)), "");
}

TEST(ProductGates, TheOldOutputIsPartOfAnAccumulatedOne) {
  const ProductCase product({64, 64, 256}, Dtype::f32, Distribution::normal);
  const Tensor old(Dtype::f32, {64, 64});
  fill_random(old, Distribution::normal, {1, 2}, 1);
  const Tensor sum = copy_of(product.out);
  for (std::int64_t i = 0; i < 64 * 64; ++i) {
    static_cast<float*>(sum.data())[i] += static_cast<const float*>(old.data())[i];
  }
  EXPECT_EQ(failed_gates(judge_kernel("d", {sum, product.qa, product.qb, old}, {})), "");
  EXPECT_EQ(failed_gates(judge_kernel("d", {sum, product.qa, product.qb}, {})), "G2 G3");
}

TEST(ProductGates, ABiasIsPartOfEveryRow) {
  const ProductCase product({64, 64, 256}, Dtype::f32, Distribution::normal);
  const Tensor bias(Dtype::f32, {1, 64});
  fill_random(bias, Distribution::normal, {1, 2}, 1);
  const Tensor sum = copy_of(product.out);
  for (std::int64_t i = 0; i < 64 * 64; ++i) {
    static_cast<float*>(sum.data())[i] += static_cast<const float*>(bias.data())[i % 64];
  }
  const TensorView rows = repeated(bias.view(), 64);
  EXPECT_EQ(failed_gates(judge_kernel("d", {sum, product.qa, product.qb, rows}, {})), "");
  EXPECT_EQ(failed_gates(judge_kernel("d", {sum, product.qa, product.qb}, {})), "G2 G3");
  set_element(sum, 63, 5, 1000);
  EXPECT_EQ(failed_gates(judge_kernel("d", {sum, product.qa, product.qb, rows}, {})), "G2 G3");
}

TEST(ProductGates, G1TellsOneFormatFromAnother) {
  const ProductCase product({64, 128, 512}, Dtype::bf16, Distribution::normal);
  const ProductClaim claim{product.out, product.a.view(), product.b.view()};
  EXPECT_TRUE(judge_g1("d", claim, {}, {}).pass);
  const QuantizedTensor coarse = ProductCase::quantized(product.a, kBlock1x128, Dtype::e5m2);
  product.multiply(coarse, product.qb, product.out);
  EXPECT_FALSE(judge_g1("d", claim, {Dtype::e4m3, Dtype::e4m3}, {}).pass);
  EXPECT_TRUE(judge_g1("d", claim, {Dtype::e5m2, Dtype::e4m3}, {}).pass);
}

TEST(ProductGates, G1OfSmallOutputsSeesAWrongScale) {
  const ProductCase product({1, 3, 2}, Dtype::f32, Distribution::one_signed);
  ProductClaim claim{product.out, product.a.view(), product.b.view()};
  EXPECT_TRUE(judge_g1("d", claim, {}, {}).pass);
  const Tensor spoilt = copy_of(product.out);
  for (std::int64_t col = 0; col < 3; ++col) {
    set_element(spoilt, 0, col, 1.5 * decode(product.out, 0, col));
  }
  claim.out = spoilt;
  EXPECT_FALSE(judge_g1("d", claim, {}, {}).pass);
}

TEST(ProductGates, G4SeesAMissingSliceOfTheContraction) {
  const Tensor a(Dtype::bf16, {64, 4096});
  const Tensor b(Dtype::bf16, {64, 4096});
  fill_random(a, Distribution::normal, {1, 0}, 1);
  fill_random(b, Distribution::normal, {1, 1}, 1);
  const auto product_of = [&](std::int64_t k) {
    Tensor out(Dtype::f32, {64, 64});
    for (std::int64_t m = 0; m < 64; ++m) {
      for (std::int64_t n = 0; n < 64; ++n) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += decode(a, m, i) * decode(b, n, i);
        set_element(out, m, n, sum);
      }
    }
    return out;
  };
  EXPECT_EQ(failed_gates(judge_float_product("d", {product_of(4096), a.view(), b.view()}, {})), "");
  EXPECT_EQ(failed_gates(judge_float_product("d", {product_of(4095), a.view(), b.view()}, {})),
            "G4 G3");
}

// A contraction of one, whose rows have sizes from 2^-25 to 1: in f16 some are subnormal as a whole.
class SubnormalProduct : public testing::Test {
 protected:
  static constexpr std::int64_t kSize = 128;
  static constexpr double kStep = 0x1p-24;  // of the subnormals of f16

  SubnormalProduct()
      : a_(Dtype::f32, {kSize, 1}), b_(Dtype::f32, {kSize, 1}), out_(Dtype::f16, {kSize, kSize}) {
    fill_random(b_, Distribution::normal, {1, 1}, 1);
    for (std::int64_t m = 0; m < kSize; ++m) {
      set_element(a_, m, 0, std::ldexp(1, -static_cast<int>(m % 26)));
    }
    for_each([&](std::int64_t m, std::int64_t n) { set_element(out_, m, n, wanted(m, n)); });
  }

  double reference(std::int64_t m, std::int64_t n) const {
    return decode(a_, m, 0) * decode(b_, n, 0);
  }
  // To nearest even, by an arithmetic that the gates do not use.
  double wanted(std::int64_t m, std::int64_t n) const {
    const double ref = reference(m, n);
    const double ulp = std::max(std::ldexp(1, std::ilogb(ref) - 10), kStep);
    return std::nearbyint(ref / ulp) * ulp;
  }
  bool is_subnormal(std::int64_t m, std::int64_t n) const {
    return std::fabs(reference(m, n)) < 0x1p-14;
  }
  template <class Body>
  static void for_each(const Body& body) {
    for (std::int64_t m = 0; m < kSize; ++m) {
      for (std::int64_t n = 0; n < kSize; ++n) body(m, n);
    }
  }
  std::vector<GateResult> judge() const {
    return judge_float_product("d", {out_, a_.view(), b_.view()}, {});
  }

  Tensor a_, b_, out_;
};

TEST_F(SubnormalProduct, PassesWhereEveryElementIsRoundedCorrectly) {
  EXPECT_EQ(failed_gates(judge()), "") << describe(judge());
}

TEST_F(SubnormalProduct, G4AndG3SeeSubnormalsThatAreFlushedToZero) {
  for_each([&](std::int64_t m, std::int64_t n) {
    if (is_subnormal(m, n)) set_element(out_, m, n, 0);
  });
  EXPECT_EQ(failed_gates(judge()), "G4 G3");
}

TEST_F(SubnormalProduct, G3SeesOneSubnormalThatIsOneStepOff) {
  for (const std::int64_t m : {16, 20, 25}) {
    for (const double step : {-kStep, kStep}) {
      ASSERT_TRUE(is_subnormal(m, 5));
      set_element(out_, m, 5, wanted(m, 5) + step);
      EXPECT_FALSE(judge().at(1).pass) << m << "\n" << describe(judge());
    }
    set_element(out_, m, 5, wanted(m, 5));
  }
}

TEST_F(SubnormalProduct, G4SeesOneNormalNumberThatIsTwoPercentOff) {
  ASSERT_FALSE(is_subnormal(11, 5));
  set_element(out_, 11, 5, wanted(11, 5) * 1.025);  // K is 1: allclose is 2e-2 of the reference
  EXPECT_EQ(failed_gates(judge()), "G4 G3");
}

TEST(ProductGates, SampledStripsSeeAWrongScaleAndPassWhereThereIsNone) {
  ProductCase product({300, 520, 256}, Dtype::bf16, Distribution::normal);
  JudgeOptions options;
  options.sample_beyond = 1000;
  const std::vector<GateResult> right = product.judge(product.out, options);
  EXPECT_EQ(failed_gates(right), "") << describe(right);
  EXPECT_NE(right.at(0).value.find("sampled"), std::string::npos);
  const TensorView tile = product.out + (256 * 520 + 512);  // last tile, ragged both ways
  for (std::int64_t r = 0; r < 44; ++r) {
    for (std::int64_t c = 0; c < 8; ++c) set_element(tile, r, c, 1.5 * decode(tile, r, c));
  }
  EXPECT_EQ(failed_gates(product.judge(product.out, options)), "G2 G3");
}

}  // namespace
}  // namespace octet
