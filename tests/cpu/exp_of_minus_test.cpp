// exp(-x) one by one and in vectors: the same bits, and close to exp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/exp_of_minus_test.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/exp_of_minus.hpp"
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#if OCTET_SIMD_TARGET
#include "cpu/exp_of_minus-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

void exp_in_vectors(const float* from, float* to, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(exp_of_minus(hn::LoadU(d, from + i)), d, to + i);
  }
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {
namespace {

// Every exponent and sign, infinities, and the range where exp is neither 0 nor infinite.
std::vector<float> numbers() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0xFFu << 23; bits += 0x2345) {
    values.push_back(f32_from_bits(bits));
    values.push_back(f32_from_bits(bits | 0x80000000u));
  }
  for (float x = -90; x < 90; x += 0.001f) values.push_back(x);
  values.insert(values.end(), {INFINITY, -INFINITY});
  while (values.size() % 64 != 0) values.push_back(1);
  return values;
}

TEST(ExpOfMinus, HasTheBitsOfTheVectors) {
  const std::vector<float> values = numbers();
  std::vector<float> vectors(values.size());
  for (const InstructionSet instructions : instruction_sets()) {
    (instructions == InstructionSet::avx512 ? N_AVX3::exp_in_vectors : N_AVX2::exp_in_vectors)(
        values.data(), vectors.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(bits_of(exp_of_minus(values[i])), bits_of(vectors[i]))
          << values[i] << " on " << name(instructions);
    }
  }
}

TEST(ExpOfMinus, IsCloseToExp) {
  for (const float x : numbers()) {
    const float found = exp_of_minus(x);
    if (x > 87.69f) {
      ASSERT_EQ(found, 0) << x;
    } else if (x < -88.38f) {
      ASSERT_EQ(found, INFINITY) << x;
    } else if (x < 87.68f && x > -88.37f) {
      const double wanted = std::exp(-double{x});
      const double bound = std::fabs(x) < 20 ? 2.2e-7 : 5e-7;
      ASSERT_LE(std::fabs(found - wanted), bound * wanted) << x;
    }  // else 0 or infinity begins somewhere here
  }
  EXPECT_EQ(exp_of_minus(0), 1);
  EXPECT_TRUE(std::isnan(exp_of_minus(NAN)));
}

}  // namespace
}  // namespace octet
#endif
