// Gate G7: the whole output of our Hopper kernel against cuBLASLt's, element by element. The two
// share no code, so comparing bits detects everything that a sample or a sum would miss.
#include "ops/gemm/cublaslt_case.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <tuple>

namespace octet::testing {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

enum class Data { random, skewed };

// e4m3 codes of normally distributed numbers. Rows are cut out at random offsets, which is much
// faster than a generator call per element and repeats no row.
const std::vector<std::uint8_t>& normal_codes() {
  static const std::vector<std::uint8_t> codes = [] {
    std::vector<std::uint8_t> result(std::size_t{1} << 20);
    std::mt19937_64 random(20250105);
    std::normal_distribution<float> normal(0, 100);  // e4m3 reaches 448
    for (std::uint8_t& code : result) code = fp8_from_f32(normal(random), kE4m3);
    return result;
  }();
  return codes;
}

// Scales are spread over a factor of two, skewed ones over another 2^6.
QuantizedTensor random_operand(std::int64_t rows, std::int64_t k, BlockShape block, Data data,
                               std::mt19937_64& random) {
  QuantizedTensor tensor(rows, k, Dtype::e4m3, block);
  const QuantizedView& view = tensor.view();
  const std::vector<std::uint8_t>& codes = normal_codes();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::size_t offset = random() % (codes.size() - static_cast<std::size_t>(k));
    std::memcpy(&value_at(view, r, 0), codes.data() + offset, static_cast<std::size_t>(k));
  }
  std::uniform_real_distribution<float> uniform(0.01f, 0.02f);
  for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
    for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
      const int exponent = data == Data::skewed ? static_cast<int>(random() % 7) - 3 : 0;
      scale_at(view, r, c) = std::ldexp(uniform(random), exponent);
    }
  }
  return tensor;
}

// Neighbouring numbers have neighbouring ranks, also across zero.
int rank_of(std::uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7FFF) : bits; }

struct Comparison {
  std::int64_t elements = 0;
  std::int64_t different = 0;
  std::int64_t zeros = 0;
  int most_ulps = 0;
};

Comparison compare(const Tensor& given, const Tensor& wanted) {
  Comparison result;
  const auto* x = static_cast<const std::uint16_t*>(given.data());
  const auto* y = static_cast<const std::uint16_t*>(wanted.data());
  result.elements = given.view().rows() * given.view().cols();
  for (std::int64_t i = 0; i < result.elements; ++i) {
    result.zeros += (y[i] & 0x7FFF) == 0;
    if (x[i] == y[i]) continue;
    ++result.different;
    result.most_ulps = std::max(result.most_ulps, std::abs(rank_of(x[i]) - rank_of(y[i])));
  }
  return result;
}

// Runs one backend into an output that holds `poison` in every byte.
Tensor product(const std::string& backend, const GemmProblem& problem, const QuantizedView& a,
               const QuantizedView& b, int poison) {
  Tensor host(Dtype::bf16, {problem.m, problem.n});
  std::memset(host.data(), poison, host.bytes());
  OnCuda device;
  const TensorView d = device.copy_in(host);
  run_on_device(backend, problem, {a, b, d});
  OnCuda::copy_out(d, host);
  return host;
}

class GemmBits : public ::testing::TestWithParam<std::tuple<Shape, Data>> {
 protected:
  static Comparison compare_backends(BlockShape b_block) {
    const auto& [shape, data] = GetParam();
    std::mt19937_64 random(20250106);
    GemmProblem problem{.m = shape.m, .n = shape.n, .k = shape.k};
    problem.b.block = b_block;
    problem.device = OnCuda::kDevice;
    OnCuda device;
    const QuantizedView a =
        device.copy_in(random_operand(shape.m, shape.k, kBlock1x128, data, random));
    const QuantizedView b = device.copy_in(random_operand(shape.n, shape.k, b_block, data, random));
    const Comparison result = compare(product("cuda_sm90_wgmma", problem, a, b, 0xFF),
                                      product("cublaslt", problem, a, b, 0xEE));
    std::printf("%s, %s data: %lld of %lld elements differ, by at most %d ulp\n",
                describe(problem).c_str(), data == Data::skewed ? "skewed" : "random",
                static_cast<long long>(result.different), static_cast<long long>(result.elements),
                result.most_ulps);
    EXPECT_LT(result.zeros, result.elements / 100) << "data that tell nothing";
    return result;
  }
};

TEST_P(GemmBits, AreThoseOfCublasLtFor1x128By128x128) {
  OCTET_NEEDS_HOPPER();
  EXPECT_EQ(compare_backends(kBlock128x128).different, 0);
}

TEST_P(GemmBits, AreThoseOfCublasLtFor1x128By1x128WithinOneUlpInAThousandth) {
  OCTET_NEEDS_HOPPER();
  const Comparison result = compare_backends(kBlock1x128);
  EXPECT_LE(result.most_ulps, 1);
  EXPECT_LT(result.different * 1000, result.elements);
}

std::string name_of(const ::testing::TestParamInfo<GemmBits::ParamType>& test) {
  const auto& [shape, data] = test.param;
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) +
         (data == Data::skewed ? "_skewed" : "_random");
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GemmBits,
    ::testing::Combine(::testing::Values(Shape{4096, 4096, 4096}, Shape{2048, 1536, 7168},
                                         Shape{1024, 1024, 512}, Shape{8192, 4608, 3584}),
                       ::testing::Values(Data::random, Data::skewed)),
    name_of);

}  // namespace
}  // namespace octet::testing
