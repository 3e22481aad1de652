// The f64 product against explicit sums, and the decoders against the tables of the formats.
#include "check/data/random.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/reference.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

namespace octet {
namespace {

struct Product {
  std::vector<double> value;
  std::vector<double> magnitude;
  std::int64_t cols = 0;
};

Product whole_product(const ReferenceProduct& product) {
  Product result;
  const auto rows = product.rows.empty() ? static_cast<std::size_t>(product.a.values.rows())
                                         : product.rows.size();
  result.cols = product.b.values.rows();
  result.value.assign(rows * static_cast<std::size_t>(result.cols), std::nan(""));
  result.magnitude = result.value;
  for_each_tile(product, [&](const ReferenceTile& tile) {  // tiles do not share elements
    for (int r = 0; r < tile.rows; ++r) {
      for (int c = 0; c < tile.cols; ++c) {
        const auto at =
            static_cast<std::size_t>((tile.first_row + r) * result.cols + tile.first_col + c);
        result.value[at] = tile.value[r * kTile + c];
        if (tile.magnitude != nullptr) result.magnitude[at] = tile.magnitude[r * kTile + c];
      }
    }
  });
  return result;
}

// Values and scales drawn at random, in dense layouts.
struct Quantized {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  QuantizedView view;

  Quantized(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block,
            std::uint32_t stream) {
    const std::int64_t scale_rows = (rows + block.rows - 1) / block.rows;
    const std::int64_t scale_cols = (cols + block.cols - 1) / block.cols;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      values.push_back(static_cast<std::uint8_t>(
          random_below({1, stream}, RandomUse::value, static_cast<std::uint64_t>(i), 120)));
    }
    for (std::int64_t i = 0; i < scale_rows * scale_cols; ++i) {
      scales.push_back(std::fabs(random_normal({2, stream}, static_cast<std::uint64_t>(i))));
    }
    view = {make_view(values.data(), dtype, {rows, cols}),
            make_view(scales.data(), Dtype::f32, {scale_rows, scale_cols}), block};
  }
  double at(std::int64_t row, std::int64_t col) const {
    const BlockShape block = view.block;
    return decode_fp8(values[static_cast<std::size_t>(row * view.values.cols() + col)],
                      view.values.dtype) *
           scales[static_cast<std::size_t>(row / block.rows * view.scales.cols() +
                                           col / block.cols)];
  }
};

Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, Distribution distribution,
                     std::uint32_t stream) {
  Tensor matrix(dtype, {rows, cols});
  fill_random(matrix, distribution, {1, stream}, 1);
  return matrix;
}

TEST(Decode, KnowsTheLandmarksOfEveryFormat) {
  EXPECT_EQ(decode_fp8(0x7E, Dtype::e4m3), 448);
  EXPECT_EQ(decode_fp8(0xFE, Dtype::e4m3), -448);
  EXPECT_EQ(decode_fp8(0x01, Dtype::e4m3), std::ldexp(1, -9));
  EXPECT_EQ(decode_fp8(0x08, Dtype::e4m3), std::ldexp(1, -6));
  EXPECT_TRUE(std::isnan(decode_fp8(0x7F, Dtype::e4m3)));
  EXPECT_EQ(decode_fp8(0x7B, Dtype::e5m2), 57344);
  EXPECT_EQ(decode_fp8(0x01, Dtype::e5m2), std::ldexp(1, -16));
  EXPECT_EQ(decode_fp8(0x7C, Dtype::e5m2), INFINITY);
  EXPECT_EQ(decode_fp8(0xFC, Dtype::e5m2), -INFINITY);
  EXPECT_TRUE(std::isnan(decode_fp8(0x7D, Dtype::e5m2)));
  const std::uint16_t bits[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00};
  EXPECT_EQ(decode(bits, 0, Dtype::f16), 1);
  EXPECT_EQ(decode(bits, 1, Dtype::f16), -2);
  EXPECT_EQ(decode(bits, 2, Dtype::f16), std::ldexp(1, -24));
  EXPECT_EQ(decode(bits, 3, Dtype::f16), 65504);
  EXPECT_EQ(decode(bits, 4, Dtype::f16), INFINITY);
  const std::uint16_t one = 0x3F80;
  EXPECT_EQ(decode(&one, 0, Dtype::bf16), 1);
}

TEST(Reference, EqualsTheSumWrittenOut) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const Tensor a(dtype, {259, 131});
    const Tensor b(dtype, {131, 133});  // read as [133, 131]
    fill_random(a, Distribution::normal, {1, 0}, 1);
    fill_random(b, Distribution::normal, {1, 1}, 1);
    const TensorView b_t = transposed(b.view());
    const Product product = whole_product({a.view(), b_t, {}, true, 2});
    for (std::int64_t m = 0; m < 259; m += 3) {
      for (std::int64_t n = 0; n < 133; ++n) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < 131; ++k) {
          const double term = decode(a, m, k) * decode(b_t, n, k);
          sum += term;
          magnitude += std::fabs(term);
        }
        const auto at = static_cast<std::size_t>(m * 133 + n);
        ASSERT_NEAR(product.value[at], sum, 1e-13 * magnitude);
        ASSERT_NEAR(product.magnitude[at], magnitude, 1e-5 * magnitude);
      }
    }
  }
}

TEST(Reference, AppliesTheScaleOfEveryBlock) {
  for (const BlockShape block : {kBlock1x128, kBlock128x128, kBlock128x1}) {
    const Quantized a(131, 300, Dtype::e4m3, block, 0);
    const Quantized b(140, 300, Dtype::e5m2, kBlock1x128, 1);
    const Product product = whole_product({a.view, b.view, {}, false, 1});
    for (std::int64_t m = 0; m < 131; ++m) {
      for (std::int64_t n = 0; n < 140; n += 9) {
        double sum = 0;
        for (std::int64_t k = 0; k < 300; ++k) sum += a.at(m, k) * b.at(n, k);
        ASSERT_NEAR(product.value[static_cast<std::size_t>(m * 140 + n)], sum, 1e-12 * sum);
      }
    }
  }
}

TEST(Reference, TransposingAQuantizedViewKeepsItsNumbers) {
  const Quantized stored(300, 140, Dtype::e4m3, kBlock128x128, 3);
  const Quantized b(20, 300, Dtype::e4m3, kBlock1x128, 4);
  const Product product = whole_product({transposed(stored.view), b.view, {}, false, 1});
  for (std::int64_t m = 0; m < 140; ++m) {
    double sum = 0;
    for (std::int64_t k = 0; k < 300; ++k) sum += stored.at(k, m) * b.at(7, k);
    ASSERT_NEAR(product.value[static_cast<std::size_t>(m * 20 + 7)], sum, 1e-12 * sum);
  }
}

TEST(Reference, ListedRowsAreThoseOfTheWhole) {
  const Tensor a = random_matrix(Dtype::f32, 600, 50, Distribution::normal, 0);
  const Tensor b = random_matrix(Dtype::f32, 200, 50, Distribution::normal, 1);
  const Product whole = whole_product({a.view(), b.view(), {}, false, 1});
  const std::vector<std::int64_t> rows{5, 130, 131, 599};
  const Product some = whole_product({a.view(), b.view(), rows, false, 1});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t n = 0; n < 200; ++n) {
      ASSERT_EQ(some.value[r * 200 + n], whole.value[static_cast<std::size_t>(rows[r]) * 200 + n]);
    }
  }
}

TEST(ReferenceThreads, ChangeNoBit) {
  const Tensor a = random_matrix(Dtype::bf16, 300, 333, Distribution::skewed, 0);
  const Tensor b = random_matrix(Dtype::bf16, 500, 333, Distribution::skewed, 1);
  const Product one = whole_product({a.view(), b.view(), {}, true, 1});
  const Product many = whole_product({a.view(), b.view(), {}, true, 5});
  EXPECT_EQ(one.value, many.value);
  EXPECT_EQ(one.magnitude, many.magnitude);
}

TEST(Reference, RefusesOperandsOfDifferentDepth) {
  const Tensor a(Dtype::f32, {4, 5});
  const Tensor b(Dtype::f32, {4, 6});
  EXPECT_THROW(for_each_tile({a.view(), b.view(), {}, false, 1}, [](const ReferenceTile&) {}),
               Error);
}

}  // namespace
}  // namespace octet
