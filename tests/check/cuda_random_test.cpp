// The device generates the same test data as the CPU, bit for bit.
#include "check/cuda_case.hpp"

namespace octet {
namespace {

struct RandomCase {
  Dtype dtype;
  Distribution distribution;
};

class CudaRandom : public ::testing::TestWithParam<RandomCase> {};

TEST_P(CudaRandom, MakesTheBytesOfTheCpu) {
  OCTET_NEEDS_HOPPER();
  const auto [dtype, distribution] = GetParam();
  constexpr std::int64_t kShapes[][2] = {{1, 1}, {1, 129}, {63, 65}, {257, 640}, {1000, 1023}};
  for (const auto& [rows, cols] : kShapes) {
    const Tensor cpu = random_on(kCpu, dtype, rows, cols, distribution, 3);
    const Tensor cuda = random_on(kCuda, dtype, rows, cols, distribution, 3);
    EXPECT_EQ(bytes_of(cpu), bytes_of(cuda)) << rows << "x" << cols;
  }
}

TEST_P(CudaRandom, DoesNotWriteToTheGapBehindARow) {
  OCTET_NEEDS_HOPPER();
  const GuardedMatrix matrix(GetParam().dtype, 37, 53, 5, kCuda);
  fill_random(matrix.view(), GetParam().distribution, {1, 0}, 1);
  EXPECT_EQ(matrix.inspect().unwritten, 0);
  EXPECT_EQ(matrix.inspect().outside, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaRandom,
                         ::testing::Values(RandomCase{Dtype::f32, Distribution::normal},
                                           RandomCase{Dtype::f32, Distribution::skewed},
                                           RandomCase{Dtype::f16, Distribution::skewed},
                                           RandomCase{Dtype::f16, Distribution::one_signed},
                                           RandomCase{Dtype::bf16, Distribution::normal},
                                           RandomCase{Dtype::bf16, Distribution::skewed},
                                           RandomCase{Dtype::bf16, Distribution::one_signed},
                                           RandomCase{Dtype::bf16, Distribution::outliers}),
                         [](const auto& test) {
                           return std::string(name(test.param.dtype)) + "_" +
                                  name(test.param.distribution);
                         });

}  // namespace
}  // namespace octet
