// Every cast against a table of all FP8 values: the scalar definition and the SIMD path.
#include "ops/quantize/fp8_oracle.hpp"
#include "ops/quantize/paths.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e5m2};

std::vector<float> all_of_16_bits(Dtype dtype) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto code = static_cast<std::uint16_t>(bits);
    values.push_back(dtype == Dtype::bf16 ? f32_from_bf16(code) : f32_from_f16(code));
  }
  return values;
}

void add_with_neighbours(float value, std::vector<float>& values) {
  for (float sign : {1.0f, -1.0f}) {
    values.push_back(sign * std::nextafter(value, 0.0f));
    values.push_back(sign * value);
    values.push_back(sign * std::nextafter(value, std::numeric_limits<float>::infinity()));
  }
}

// Every 1024th bit pattern, and every value and rounding boundary of the format with its
// neighbours.
std::vector<float> sweep_of_f32(const oracle::Fp8Table& table) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 1024) {
    values.push_back(f32_from_bits(static_cast<std::uint32_t>(bits)));
  }
  const std::vector<double>& codes = table.values();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    add_with_neighbours(static_cast<float>(codes[i]), values);
    if (i > 0) add_with_neighbours(static_cast<float>((codes[i - 1] + codes[i]) / 2), values);
  }
  const double last_step = codes.back() - codes[codes.size() - 2];
  add_with_neighbours(static_cast<float>(codes.back() + last_step / 2), values);
  return values;
}

void expect_scalar_casts(const std::vector<float>& values, Dtype format) {
  const oracle::Fp8Table table(format);
  for (float value : values) {
    ASSERT_EQ(fp8_from_f32(value, fp8_format(format)), table.encode(value))
        << name(format) << " of " << value << ", bits " << std::hex << bits_of(value);
  }
}

// Rows of 128 that begin with the format's limit, so that every scale is 1 and only the cast is
// tested. Larger values would change the scale and are skipped.
void expect_simd_casts(std::vector<float> values, Dtype input, Dtype format) {
  ASSERT_FALSE(simd_paths().empty()) << "this machine has no AVX2";
  const oracle::Fp8Table table(format);
  std::erase_if(values, [&](float x) { return std::isfinite(x) && std::fabs(x) > table.limit(); });
  const auto rows = static_cast<std::int64_t>((values.size() + 126) / 127);
  Input matrix(rows, kBlock, input);
  for (std::int64_t r = 0; r < rows; ++r) {
    matrix.set(r, 0, static_cast<float>(table.limit()));
    for (std::int64_t c = 1; c < kBlock; ++c) {
      const auto i = static_cast<std::size_t>(r * 127 + c - 1);
      matrix.set(r, c, i < values.size() ? values[i] : 0.0f);
    }
  }
  QuantizeProblem problem{.rows = rows, .cols = kBlock, .input_dtype = input, .format = format};
  for (Path path : simd_paths()) {
    const QuantizedTensor out(rows, kBlock, format, kBlock1x128);
    quantize_by(path, problem, {matrix.view(), out, {}});
    const auto* codes = static_cast<const std::uint8_t*>(out.view().values.data);
    const auto* scales = static_cast<const float*>(out.view().scales.data);
    for (std::int64_t r = 0; r < rows; ++r) {
      ASSERT_EQ(scales[r], 1.0f);
      for (std::int64_t c = 0; c < kBlock; ++c) {
        const float value = matrix.at(r, c);
        ASSERT_EQ(codes[r * kBlock + c], table.encode(value))
            << name(path) << ": " << describe(problem) << " of " << value << ", bits " << std::hex
            << bits_of(value);
      }
    }
  }
}

TEST(ScalarCast, MatchesTheTableForAllBf16AndF16) {
  for (Dtype format : kFormats) {
    expect_scalar_casts(all_of_16_bits(Dtype::bf16), format);
    expect_scalar_casts(all_of_16_bits(Dtype::f16), format);
  }
}

TEST(ScalarCast, MatchesTheTableForADenseSweepOfF32) {
  for (Dtype format : kFormats) {
    expect_scalar_casts(sweep_of_f32(oracle::Fp8Table(format)), format);
  }
}

TEST(ScalarCast, DecodesEveryCodeToItsTableValue) {
  const oracle::Fp8Table e4m3(Dtype::e4m3);
  const oracle::Fp8Table e5m2(Dtype::e5m2);
  for (int i = 0; i < 256; ++i) {
    const auto code = static_cast<std::uint8_t>(i);
    const auto same = [](float x, double y) {
      return std::isnan(y) ? std::isnan(x) : x == y && std::signbit(x) == std::signbit(y);
    };
    EXPECT_TRUE(same(f32_from_e4m3(code), e4m3.decode(code))) << "e4m3 code " << i;
    EXPECT_TRUE(same(f32_from_e5m2(code), e5m2.decode(code))) << "e5m2 code " << i;
  }
}

TEST(SimdCast, MatchesTheTableForAllBf16) {
  for (Dtype format : kFormats) {
    expect_simd_casts(all_of_16_bits(Dtype::bf16), Dtype::bf16, format);
  }
}

TEST(SimdCast, MatchesTheTableForAllF16) {
  for (Dtype format : kFormats) {
    expect_simd_casts(all_of_16_bits(Dtype::f16), Dtype::f16, format);
  }
}

TEST(SimdCast, MatchesTheTableForADenseSweepOfF32) {
  for (Dtype format : kFormats) {
    expect_simd_casts(sweep_of_f32(oracle::Fp8Table(format)), Dtype::f32, format);
  }
}

}  // namespace
}  // namespace octet
