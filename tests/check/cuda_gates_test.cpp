// The gates over device outputs that are corrupted on purpose: which gate detects what.
#include "check/cuda_case.hpp"
#include "check/reference/on_host.hpp"

namespace octet {
namespace {

class SpoiltCudaProduct : public ::testing::TestWithParam<ProductKind> {
 protected:
  static CudaProduct make(const ProductShape& shape = {256, 384, 512}) {
    return {shape, GetParam().out, GetParam().distribution, GetParam().b_block};
  }
  static bool sees(const std::string& failed, const char* gate) {
    return failed.find(gate) != std::string::npos;
  }
  // The gates that fail when one scale of an operand is replaced by its neighbour's. Takes the
  // first two scales of a column that differ by more than 2 %; a smaller difference may vanish in
  // the rounding of a 16-bit output.
  static std::string failed_with_scale(const CudaProduct& product, const QuantizedView& operand,
                                       std::int64_t col) {
    const TensorView& scales = operand.scales;
    const PartOnHost column(scales, {0, scales.rows(), col, 1});
    std::int64_t row = 0;
    const auto ratio = [&] {
      return decode(column.view(), row + 1, 0) / decode(column.view(), row, 0);
    };
    while (row + 2 < scales.rows() && std::fabs(ratio() - 1) < 0.02) ++row;
    EXPECT_GT(std::fabs(ratio() - 1), 0.02) << "nothing to see";
    const auto right = static_cast<float>(decode(column.view(), row, 0));
    const auto wrong = static_cast<float>(decode(column.view(), row + 1, 0));
    float* scale =
        static_cast<float*>(scales.data) + row * scales.strides[0] + col * scales.strides[1];
    cuda::copy(scale, &wrong, sizeof(float), 0);
    product.multiply();
    cuda::copy(scale, &right, sizeof(float), 0);
    return product.failed();
  }
};

TEST_P(SpoiltCudaProduct, PassesWhereNothingIsSpoilt) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make();
  EXPECT_EQ(product.failed(), "");
  EXPECT_EQ(failed_gates(product.quantisers.results), "");
  EXPECT_EQ(product.quantisers.results.size(), 2u);
}

TEST_P(SpoiltCudaProduct, G2AndG3SeeAZeroedTile) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make();
  spoil(product.out, 128, 128, 256, 128, 0);
  EXPECT_EQ(product.failed(), "G2 G3");
}

TEST_P(SpoiltCudaProduct, G3SeesAZeroedRowStripAndAZeroedColumnStrip) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make();
  spoil(product.out, 200, 1, 128, 128, 0);
  EXPECT_TRUE(sees(product.failed(), "G3"));
  product.multiply();
  spoil(product.out, 0, 128, 383, 1, 0);
  EXPECT_TRUE(sees(product.failed(), "G3"));
}

TEST_P(SpoiltCudaProduct, G3SeesTheScaleOfANeighbouringBlock) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make();
  EXPECT_TRUE(sees(failed_with_scale(product, product.qa.view(), 2), "G3"));
  EXPECT_TRUE(sees(failed_with_scale(product, product.qb.view(), 3), "G3"));
}

TEST_P(SpoiltCudaProduct, AnUnwrittenElementFails) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make();
  spoil(product.out, 3, 1, 3, 1, 0xFF);
  EXPECT_EQ(product.failed(), "G2 G3");
}

TEST_P(SpoiltCudaProduct, SampledStripsSeeAZeroedTileAndPassWhereThereIsNone) {
  OCTET_NEEDS_HOPPER();
  const CudaProduct product = make({300, 520, 256});
  JudgeOptions options = cuda_judge();
  options.sample_beyond = 1000;
  EXPECT_EQ(product.failed(options), "");
  spoil(product.out, 256, 44, 384, 128, 0);  // a tile at the lower edge
  EXPECT_TRUE(sees(product.failed(options), "G3"));
}

INSTANTIATE_TEST_SUITE_P(
    Products, SpoiltCudaProduct,
    ::testing::Values(
        ProductKind{"bf16_normal_1d2d", Dtype::bf16, Distribution::normal, kBlock128x128},
        ProductKind{"bf16_skewed_1d1d", Dtype::bf16, Distribution::skewed, kBlock1x128},
        ProductKind{"f32_normal_1d1d", Dtype::f32, Distribution::normal, kBlock1x128},
        ProductKind{"f32_skewed_1d2d", Dtype::f32, Distribution::skewed, kBlock128x128}),
    [](const auto& test) { return test.param.name; });

class GuardedCudaOutput : public ::testing::TestWithParam<Dtype> {};

TEST_P(GuardedCudaOutput, G6SeesWhatIsUnwrittenAndWhatIsWrittenOutside) {
  OCTET_NEEDS_HOPPER();
  const auto size = size_bytes(GetParam());
  const GuardedMatrix matrix(GetParam(), 37, 53, 5, kCuda);
  EXPECT_EQ(matrix.inspect().unwritten, 37 * 53);
  fill(elements_of(matrix.view()), 0);
  EXPECT_TRUE(judge_g6("d", matrix.inspect(), {}).pass);
  spoil(matrix.view(), 36, 1, 52, 1, 0xFF);
  EXPECT_EQ(judge_g6("d", matrix.inspect(), {}).value, "1 unwritten, 0 bytes outside");
  spoil(matrix.view(), 36, 1, 52, 1, 0);
  constexpr std::int64_t kFarBand = std::int64_t{1} << 19;
  std::int64_t outside = 0;
  for (const std::int64_t offset : {-kFarBand / 4, std::int64_t{-1}, std::int64_t{53},
                                    std::int64_t{58 * 37}, 58 * 37 + kFarBand / 4}) {
    spoil(matrix.view() + offset, 0, 1, 0, 1, 0);
    outside += size;
    EXPECT_EQ(matrix.inspect().outside, outside) << "offset " << offset;
  }
  EXPECT_EQ(matrix.inspect().unwritten, 0);
  EXPECT_FALSE(judge_g6("d", matrix.inspect(), {}).pass);
}

TEST_P(GuardedCudaOutput, G5SeesOneElementBetweenTwoRuns) {
  OCTET_NEEDS_HOPPER();
  GuardedMatrix first(GetParam(), 37, 53, 0, kCuda);
  GuardedMatrix second(GetParam(), 37, 53, 5, kCuda);
  const Tensor data = random_on(kCuda, GetParam(), 37, 53, Distribution::normal, 0);
  first.fill_from(data);
  second.fill_from(data);
  EXPECT_TRUE(judge_g5("d", first.view(), second.view()).pass);
  spoil(second.view(), 36, 1, 52, 1, 0);
  EXPECT_EQ(judge_g5("d", first.view(), second.view()).value, "1 differ");
}

TEST_P(GuardedCudaOutput, WholeOutputsAreComparedAsOnTheCpu) {
  OCTET_NEEDS_HOPPER();
  const auto compare_on = [](Device device) {
    const Tensor x = random_on(device, GetParam(), 300, 200, Distribution::normal, 0);
    const Tensor y = random_on(device, GetParam(), 300, 200, Distribution::skewed, 0);
    return compare_whole_outputs(x, y);
  };
  const OutputDifferences cpu = compare_on(kCpu);
  const OutputDifferences cuda = compare_on(kCuda);
  EXPECT_GT(cpu.different, 0);
  EXPECT_EQ(cpu.different, cuda.different);
  EXPECT_EQ(cpu.largest_ulps, cuda.largest_ulps);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GuardedCudaOutput,
                         ::testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

class GuardedCudaCopy : public ::testing::TestWithParam<BlockShape> {
 protected:
  static void write(const TensorView& input, const GuardedQuantized& copy) {
    QuantizeProblem problem{
        .rows = input.rows(), .cols = input.cols(), .block = GetParam(), .device = kCuda};
    run_once(plan_quantize(problem), QuantizeArgs{input, copy.view(), {}}, kCuda);
  }
};

TEST_P(GuardedCudaCopy, QAndG6SeeWhatIsSpoilt) {
  OCTET_NEEDS_HOPPER();
  const QuantizedLayout layout(131, 300, Dtype::e4m3, GetParam());
  const Tensor input = random_on(kCuda, Dtype::bf16, 131, 300, Distribution::skewed, 0);
  for (const bool owns_padding : {true, false}) {
    const GuardedQuantized copy(layout, owns_padding, kCuda);
    EXPECT_EQ(copy.inspect().unwritten, 131 * 300 + layout.scale_shape[0] * layout.scale_shape[1]);
    write(input, copy);
    const auto q = [&] {
      return judge_quantizer("q", copy.view(), input, {Dtype::e4m3, GetParam()}, cuda_judge());
    };
    EXPECT_EQ(q().value, "0 differ");
    EXPECT_TRUE(judge_g6("q", copy.inspect(), {}).pass);

    spoil(copy.view().values, 130, 1, 299, 1, 0xFF);
    EXPECT_EQ(q().value, "1 differ");
    EXPECT_EQ(copy.inspect().unwritten, 1);
    spoil(copy.view().scales, 0, 1, 0, 1, 0);
    EXPECT_EQ(q().value, "2 differ");
    EXPECT_FALSE(q().pass);
    spoil(copy.view().values, 0, 1, 300, 1, 1);  // the padding of row 0
    EXPECT_EQ(copy.inspect().bad_padding, owns_padding ? 1 : 0);
    EXPECT_EQ(copy.inspect().outside, owns_padding ? 0 : 1);
    EXPECT_FALSE(judge_g6("q", copy.inspect(), {}).pass);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, GuardedCudaCopy, ::testing::Values(kBlock1x128, kBlock128x128),
                         [](const auto& test) { return "block" + name(test.param); });

}  // namespace
}  // namespace octet
