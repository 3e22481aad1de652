// The reference on the device against the one on the CPU, and parts of matrices copied to the host.
#include "check/cuda_case.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/reference.hpp"

#include <mutex>

namespace octet {
namespace {

struct Product {
  std::vector<double> value;      // [rows, N]
  std::vector<double> magnitude;  // the same
};

Product product_of(const QuantizedView& a, const QuantizedView& b,
                   const std::vector<std::int64_t>& rows) {
  const std::int64_t n = b.values.rows();
  const std::size_t count = rows.empty() ? static_cast<std::size_t>(a.values.rows()) : rows.size();
  Product result;
  result.value.resize(count * static_cast<std::size_t>(n), NAN);
  result.magnitude = result.value;
  for_each_tile({a, b, rows, true, 2}, [&](const ReferenceTile& tile) {
    for (int r = 0; r < tile.rows; ++r) {
      for (int c = 0; c < tile.cols; ++c) {
        const auto at = static_cast<std::size_t>((tile.first_row + r) * n + tile.first_col + c);
        result.value[at] = tile.value[r * kTile + c];
        result.magnitude[at] = tile.magnitude[r * kTile + c];
      }
    }
  });
  return result;
}

// The two differ only in the order of f64 sums; magnitudes are f32.
void expect_same(const Product& cpu, const Product& cuda) {
  ASSERT_EQ(cpu.value.size(), cuda.value.size());
  for (std::size_t i = 0; i < cpu.value.size(); ++i) {
    ASSERT_NEAR(cpu.value[i], cuda.value[i], 1e-12 * cpu.magnitude[i]) << "element " << i;
    ASSERT_NEAR(cpu.magnitude[i], cuda.magnitude[i], 1e-4 * cpu.magnitude[i]) << "element " << i;
  }
}

constexpr ProductShape kShapes[] = {{1, 1, 1}, {1, 129, 127}, {130, 70, 17}, {257, 300, 384}};

class CudaReference : public ::testing::TestWithParam<Dtype> {};

TEST_P(CudaReference, AgreesWithTheCpuOnFloatsInBothOrders) {
  OCTET_NEEDS_HOPPER();
  for (const ProductShape& s : kShapes) {
    testing::OnCuda device;
    const Tensor a = random_on(kCpu, GetParam(), s.m, s.k, Distribution::skewed, 0);
    const Tensor b = random_on(kCpu, GetParam(), s.n, s.k, Distribution::skewed, 1);
    const Tensor b_turned = random_on(kCpu, GetParam(), s.k, s.n, Distribution::normal, 2);
    expect_same(product_of(a.view(), b.view(), {}),
                product_of(device.copy_in(a.view()), device.copy_in(b.view()), {}));
    expect_same(
        product_of(a.view(), transposed(b_turned.view()), {}),
        product_of(device.copy_in(a.view()), transposed(device.copy_in(b_turned.view())), {}));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaReference,
                         ::testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

struct Formats {
  Dtype a;
  Dtype b;
  BlockShape b_block;
};

class CudaDequantisedReference : public ::testing::TestWithParam<Formats> {};

TEST_P(CudaDequantisedReference, AgreesWithTheCpu) {
  OCTET_NEEDS_HOPPER();
  for (const ProductShape& s : kShapes) {
    testing::OnCuda device;
    const Tensor a = random_on(kCpu, Dtype::bf16, s.m, s.k, Distribution::skewed, 0);
    const Tensor b = random_on(kCpu, Dtype::bf16, s.n, s.k, Distribution::skewed, 1);
    const QuantizedTensor qa = ProductCase::quantized(a, kBlock1x128, GetParam().a);
    const QuantizedTensor qb = ProductCase::quantized(b, GetParam().b_block, GetParam().b);
    const QuantizedView on_a = device.copy_in(qa.view());
    const QuantizedView on_b = device.copy_in(qb.view());
    expect_same(product_of(qa, qb, {}), product_of(on_a, on_b, {}));
    const std::vector<std::int64_t> some = {s.m - 1, s.m / 2, 0};
    expect_same(product_of(qa, qb, some), product_of(on_a, on_b, some));
  }
}

TEST_P(CudaDequantisedReference, AgreesWithTheCpuOnATransposedOperand) {
  OCTET_NEEDS_HOPPER();
  testing::OnCuda device;
  const Tensor a = random_on(kCpu, Dtype::bf16, 70, 200, Distribution::normal, 0);
  const Tensor w = random_on(kCpu, Dtype::bf16, 200, 300, Distribution::skewed, 1);
  const QuantizedTensor qa = ProductCase::quantized(a, kBlock1x128, GetParam().a);
  const QuantizedTensor qw = ProductCase::quantized(w, kBlock128x128, GetParam().b);
  expect_same(product_of(qa, transposed(qw.view()), {}),
              product_of(device.copy_in(qa.view()), transposed(device.copy_in(qw.view())), {}));
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaDequantisedReference,
                         ::testing::Values(Formats{Dtype::e4m3, Dtype::e4m3, kBlock128x128},
                                           Formats{Dtype::e4m3, Dtype::e4m3, kBlock1x128},
                                           Formats{Dtype::e5m2, Dtype::e4m3, kBlock1x128}),
                         [](const auto& test) {
                           return std::string(name(test.param.a)) + "_" +
                                  std::string(name(test.param.b)) + "_" + name(test.param.b_block);
                         });

TEST(CudaParts, OfAMatrixReachTheHostInEitherOrder) {
  OCTET_NEEDS_HOPPER();
  const Tensor cpu = random_on(kCpu, Dtype::f32, 40, 50, Distribution::normal, 0);
  const Tensor cuda = random_on(kCuda, Dtype::f32, 40, 50, Distribution::normal, 0);
  const PartOnHost part(cuda, {3, 20, 7, 30});
  const PartOnHost transposed_part(transposed(cuda.view()), {7, 30, 3, 20});
  const RowsOnHost rows(cuda, {39, 0, 17});
  for (std::int64_t c = 0; c < 30; ++c) {
    for (std::int64_t r = 0; r < 20; ++r) {
      EXPECT_EQ(decode(part.view(), r, c), decode(cpu, 3 + r, 7 + c));
      EXPECT_EQ(decode(transposed_part.view(), c, r), decode(cpu, 3 + r, 7 + c));
    }
    EXPECT_EQ(decode(rows.view(), rows.find(0, 39), c), decode(cpu, 39, c));
    EXPECT_EQ(decode(rows.view(), rows.find(2, 17), c), decode(cpu, 17, c));
  }
}

TEST(CudaParts, OneColumnTurnedReachesTheHost) {
  OCTET_NEEDS_HOPPER();
  const Tensor cpu = random_on(kCpu, Dtype::bf16, 200, 1, Distribution::normal, 0);
  const Tensor cuda = random_on(kCuda, Dtype::bf16, 200, 1, Distribution::normal, 0);
  const PartOnHost transposed_part(transposed(cuda.view()), {0, 1, 128, 72});
  for (std::int64_t c = 0; c < 72; ++c) {
    EXPECT_EQ(decode(transposed_part.view(), 0, c), decode(cpu, 128 + c, 0));
  }
}

}  // namespace
}  // namespace octet
