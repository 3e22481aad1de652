// Correct operators on the device pass every gate.
#include "check/cuda_case.hpp"

namespace octet {
namespace {

struct OperatorCase {
  ProductShape shape;
  Distribution distribution;
};

class CorrectCudaOperators : public ::testing::TestWithParam<OperatorCase> {
 protected:
  static DataOptions options() {
    DataOptions result;
    result.distribution = GetParam().distribution;
    return result;
  }
};

TEST_P(CorrectCudaOperators, TheLayerPassesWithBothBlocksOfTheWeightGradient) {
  OCTET_NEEDS_HOPPER();
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    Fp8LinearProblem problem{.m = GetParam().shape.m,
                             .n = GetParam().shape.n,
                             .k = GetParam().shape.k,
                             .wgrad_blocks = blocks,
                             .device = kCuda};
    expect_pass(check_fp8_linear(problem, options()), describe(problem));
    problem.dw_dtype = Dtype::f32;
    problem.accumulate_dw = true;
    problem.bias_dtype = Dtype::bf16;
    problem.dbias_dtype = Dtype::f32;
    expect_pass(check_fp8_linear(problem, options()), describe(problem));
  }
}

TEST_P(CorrectCudaOperators, TheLayerPassesInEveryGranularity) {
  OCTET_NEEDS_HOPPER();
  for (const Granularity granularity :
       {Granularity::tensorwise, Granularity::rowwise, Granularity::mxfp8}) {
    Fp8LinearProblem problem{
        .m = GetParam().shape.m, .n = GetParam().shape.n, .k = GetParam().shape.k, .device = kCuda};
    problem.granularity = granularity;
    expect_pass(check_fp8_linear(problem, options()), describe(problem));
    problem.grad_format = Dtype::e5m2;
    problem.dw_dtype = Dtype::f32;
    problem.accumulate_dw = true;
    problem.bias_dtype = Dtype::bf16;
    if (granularity == Granularity::mxfp8) {
      problem.wgrad_blocks = WgradBlocks::square;
      problem.mx_scale = MxScale::even;
    }
    expect_pass(check_fp8_linear(problem, options()), describe(problem));
  }
}

TEST_P(CorrectCudaOperators, TheLayerPassesWithQuantisedWeightsAndHybridFormats) {
  OCTET_NEEDS_HOPPER();
  Fp8LinearProblem problem{.m = GetParam().shape.m,
                           .n = GetParam().shape.n,
                           .k = GetParam().shape.k,
                           .grad_format = Dtype::e5m2,
                           .weights_quantized = true,
                           .device = kCuda};
  const GateReport report = check_fp8_linear(problem, options());
  expect_pass(report, describe(problem));
  // x, w, dy, dy^T and x^T as quantised for the reference, and the saved x_t.
  std::int64_t judged = 0;
  for (const GateResult& result : report.results) judged += result.gate == "Q";
  EXPECT_EQ(judged, 6);
}

TEST_P(CorrectCudaOperators, ProductsPass) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype out : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
      GemmProblem problem{
          .m = GetParam().shape.m, .n = GetParam().shape.n, .k = GetParam().shape.k};
      problem.b.block = block;
      problem.out_dtype = out;
      problem.accumulate = out == Dtype::f32;
      if (!problem.accumulate) problem.bias_dtype = Dtype::f32;
      problem.device = kCuda;
      expect_pass(check_gemm(problem, options()), describe(problem));
    }
  }
}

TEST_P(CorrectCudaOperators, QuantisersPass) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
    QuantizeProblem problem{.rows = GetParam().shape.m, .cols = GetParam().shape.k};
    problem.block = problem.transposed_block = block;
    problem.device = kCuda;
    const GateReport report = check_quantize(problem, options());
    expect_pass(report, describe(problem));
    EXPECT_EQ(report.results.size(), 6u);
  }
}

TEST_P(CorrectCudaOperators, DequantizeAndRepackPass) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128, kEachRow, kEachColumn,
                                 kWholeTensor, kBlock1x32, kBlock32x32}) {
    const ProductShape& shape = GetParam().shape;
    const DequantizeProblem problem{shape.m, shape.k, Dtype::e4m3, block, Dtype::bf16, kCuda};
    expect_pass(check_dequantize(problem, options()), describe(problem));
    const RepackProblem packed{shape.m, shape.k, Dtype::e5m2, block, kCuda};
    for (const bool transposed : {false, true}) {
      DataOptions source = options();
      source.transposed_source = transposed;
      expect_pass(check_repack(packed, source), describe(packed));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CorrectCudaOperators,
                         ::testing::Values(OperatorCase{{1, 1, 1}, Distribution::normal},
                                           OperatorCase{{1, 129, 127}, Distribution::normal},
                                           OperatorCase{{1, 129, 127}, Distribution::skewed},
                                           OperatorCase{{257, 384, 640}, Distribution::normal},
                                           OperatorCase{{257, 384, 640}, Distribution::skewed},
                                           OperatorCase{{257, 384, 640}, Distribution::one_signed},
                                           OperatorCase{{300, 520, 1100}, Distribution::normal},
                                           OperatorCase{{300, 520, 1100}, Distribution::skewed},
                                           OperatorCase{{2048, 2048, 1024}, Distribution::normal},
                                           OperatorCase{{2048, 2048, 1024}, Distribution::skewed},
                                           OperatorCase{{2176, 2048, 2304}, Distribution::normal}),
                         [](const auto& test) {
                           const ProductShape& shape = test.param.shape;
                           return "m" + std::to_string(shape.m) + "_n" + std::to_string(shape.n) +
                                  "_k" + std::to_string(shape.k) + "_" +
                                  name(test.param.distribution);
                         });

TEST(CudaGates, OutOfMemoryIsAnErrorThatNamesTheProblem) {
  OCTET_NEEDS_HOPPER();
  QuantizeProblem problem;
  problem.rows = problem.cols = std::int64_t{1} << 19;  // 512 GiB of bf16
  problem.device = kCuda;
  try {
    (void)check_quantize(problem, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find(octet::describe(problem)), std::string::npos);
  }
}

}  // namespace
}  // namespace octet
