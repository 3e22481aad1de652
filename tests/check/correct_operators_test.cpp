// Correct operators pass every gate, for any seed, shape and data.
#include "check/gates.hpp"
#include "check/product_case.hpp"

namespace octet {
namespace {

DataOptions options_of_seed(std::uint64_t seed) {
  constexpr Distribution kDistributions[] = {Distribution::normal, Distribution::skewed,
                                             Distribution::one_signed};
  DataOptions options;
  options.seed = seed;
  options.distribution = kDistributions[seed % 3];
  return options;
}

Fp8LinearProblem layer_of(ProductShape shape) {
  Fp8LinearProblem problem{.m = shape.m, .n = shape.n, .k = shape.k};
  return problem;
}

std::int64_t count(const GateReport& report, const std::string& gate) {
  std::int64_t found = 0;
  for (const GateResult& result : report.results) found += result.gate == gate;
  return found;
}

TEST(CorrectOperators, TheLayerPassesOnAHundredSeeds) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const ProductShape shape :
         {ProductShape{1, 1, 1}, {1, 129, 127}, {33, 34, 35}, {40, 3, 130}}) {
      Fp8LinearProblem problem = layer_of(shape);
      problem.dw_dtype = seed % 2 == 0 ? Dtype::bf16 : Dtype::f32;
      problem.accumulate_dw = seed % 4 == 1;
      if (seed % 3 == 0) problem.bias_dtype = seed % 2 == 0 ? Dtype::bf16 : Dtype::f32;
      if (seed % 3 != 1) problem.dbias_dtype = seed % 2 == 0 ? Dtype::bf16 : Dtype::f32;
      const GateReport report = check_fp8_linear(problem, options_of_seed(seed));
      ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                                 << describe(report.results);
    }
  }
}

TEST(CorrectOperators, ProductsPassOnAHundredSeeds) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    GemmProblem problem{.m = 1 + static_cast<std::int64_t>(seed * 7 % 90),
                        .n = 1 + static_cast<std::int64_t>(seed * 13 % 150),
                        .k = 1 + static_cast<std::int64_t>(seed * 29 % 300),
                        .out_dtype = seed % 2 == 0 ? Dtype::f32 : Dtype::bf16,
                        .accumulate = seed % 3 == 0};
    if (seed % 4 == 0) problem.b.block = kBlock1x128;
    if (seed % 5 == 0) {
      const Dtype dtype = seed % 10 == 0 ? Dtype::f32 : Dtype::f16;
      problem.a = {dtype, {}, seed % 4 == 1 ? Major::mn : Major::k};
      problem.b = {dtype, {}, seed % 4 < 2 ? Major::mn : Major::k};
    }
    if (seed % 3 == 1) problem.bias_dtype = Dtype::f32;
    const GateReport report = check_gemm(problem, options_of_seed(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(CorrectOperators, QuantisersPassOnAHundredSeeds) {
  constexpr Dtype kInputs[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  constexpr BlockShape kBlocks[] = {kBlock1x128, kBlock128x1, kBlock128x128};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    QuantizeProblem problem{.rows = 1 + static_cast<std::int64_t>(seed * 11 % 300),
                            .cols = 1 + static_cast<std::int64_t>(seed * 17 % 400),
                            .input_dtype = kInputs[seed % 3],
                            .format = seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2,
                            .block = kBlocks[seed / 2 % 3]};
    if (seed % 3 != 0) problem.transposed_block = kBlocks[seed / 3 % 3];
    if (seed % 7 == 0) problem.block.reset();
    if (seed % 21 == 0) problem.transposed_block = kBlock1x128;
    problem.pow2_scales = seed % 5 == 0;
    problem.amax_floor = seed % 4 == 0 ? 1e-4f : 0;
    const GateReport report = check_quantize(problem, options_of_seed(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(CorrectOperators, QuantisersOfGroupsAndBatchesPass) {
  constexpr GroupSpread::Kind kSpreads[] = {GroupSpread::Kind::balanced, GroupSpread::Kind::skewed,
                                            GroupSpread::Kind::zipf, GroupSpread::Kind::half_empty,
                                            GroupSpread::Kind::one_hot};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    QuantizeProblem problem{.rows = 1 + static_cast<std::int64_t>(seed * 41 % 900),
                            .cols = 1 + static_cast<std::int64_t>(seed * 17 % 400),
                            .format = seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2,
                            .pow2_scales = seed % 5 == 0};
    problem.transposed_block = seed % 4 < 2 ? kBlock1x128 : kBlock128x128;
    if (seed % 7 == 0) problem.block.reset();
    DataOptions options = options_of_seed(seed);
    if (seed % 8 == 0) {
      problem.batch = 3;
    } else {
      problem.groups = 1 + static_cast<std::int64_t>(seed % 9);
      problem.source_rows = seed % 3 == 0 ? 100 : 0;
      problem.tail = seed % 2 == 0 ? GroupTail::zero : GroupTail::untouched;
      options.group_spread.kind = kSpreads[seed % 5];
    }
    if (problem.groups == 4) {
      options.group_spread = {GroupSpread::Kind::given, {0, 1, 0, problem.rows / 2}};
      problem.rows += 2;
    }
    const GateReport report = check_quantize(problem, options);
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(CorrectOperators, ALayerOfSeveralTilesPassesWithEveryOption) {
  for (int variant = 0; variant < 4; ++variant) {
    Fp8LinearProblem problem = layer_of({130, 140, 270});
    problem.wgrad_blocks = variant % 2 == 0 ? WgradBlocks::rows : WgradBlocks::square;
    problem.grad_format = variant / 2 == 0 ? Dtype::e4m3 : Dtype::e5m2;
    problem.dtype = variant == 1 ? Dtype::f32 : variant == 2 ? Dtype::f16 : Dtype::bf16;
    problem.weights_quantized = variant == 3;
    problem.pow2_scales = variant == 2;
    const GateReport report = check_fp8_linear(problem, options_of_seed(7));
    EXPECT_TRUE(report.pass()) << describe(problem) << "\n" << describe(report.results);
    EXPECT_EQ(count(report, "G1"), 3);
    EXPECT_EQ(count(report, "G2"), 3);
    EXPECT_EQ(count(report, "G3"), 3);
    EXPECT_EQ(count(report, "Q"), variant == 3 ? 1 : 2);  // w_t is the caller's if given
    EXPECT_GT(report.snr_db("G1", "dw"), problem.grad_format == Dtype::e4m3 ? 25 : 20);
    EXPECT_TRUE(std::isnan(report.snr_db("G4", "dw")));
  }
}

// Every way to share scales, on odd shapes, data of every distribution, with every format.
TEST(CorrectOperators, LayersOfEveryGranularityPass) {
  constexpr Distribution kData[] = {Distribution::normal, Distribution::skewed,
                                    Distribution::outliers, Distribution::one_signed};
  constexpr Granularity kOthers[] = {Granularity::tensorwise, Granularity::rowwise,
                                     Granularity::mxfp8};
  for (std::uint64_t seed = 0; seed < 48; ++seed) {
    for (const ProductShape shape : {ProductShape{1, 129, 127}, {33, 34, 35}, {130, 140, 270}}) {
      Fp8LinearProblem problem = layer_of(shape);
      problem.granularity = kOthers[seed % 3];
      problem.format = seed % 8 == 1 ? Dtype::e5m2 : Dtype::e4m3;
      problem.grad_format = seed % 4 < 2 ? Dtype::e5m2 : Dtype::e4m3;
      problem.dtype = seed % 5 == 0 ? Dtype::f32 : Dtype::bf16;
      problem.weights_quantized = seed % 7 == 0;
      problem.accumulate_dw = seed % 6 == 1;
      const bool mx = problem.granularity == Granularity::mxfp8;
      if (mx && seed % 2 == 0) problem.wgrad_blocks = WgradBlocks::square;
      if (mx) problem.mx_scale = static_cast<MxScale>(seed / 3 % 3);
      if (!mx && seed % 5 == 2) problem.pow2_scales = true;
      if (!mx) problem.fast_accumulation = seed % 2 == 1;  // which the CPU ignores
      DataOptions options = options_of_seed(seed);
      options.distribution = kData[seed / 3 % 4];
      const GateReport report = check_fp8_linear(problem, options);
      ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                                 << describe(report.results);
      EXPECT_EQ(count(report, "M"), mx ? 3 : 0);
      EXPECT_EQ(count(report, "G2"), 3);
    }
  }
}

TEST(CorrectOperators, ProductsOfWholeRowsAndTensorsPass) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    GemmProblem problem{.m = 1 + static_cast<std::int64_t>(seed * 7 % 90),
                        .n = 1 + static_cast<std::int64_t>(seed * 13 % 150),
                        .k = 1 + static_cast<std::int64_t>(seed * 29 % 300),
                        .out_dtype = seed % 2 == 0 ? Dtype::f32 : Dtype::bf16,
                        .accumulate = seed % 3 == 0};
    problem.a.block = seed % 4 < 2 ? kEachRow : kWholeTensor;
    problem.b.block = seed % 3 < 2 ? kEachRow : kWholeTensor;
    const GateReport report = check_gemm(problem, options_of_seed(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(CorrectOperators, ProductsOfMxOperandsPass) {
  constexpr BlockShape kPairs[][2] = {
      {kBlock1x32, kBlock1x32}, {kBlock1x32, kBlock32x32}, {kBlock32x32, kBlock1x32}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    GemmProblem problem{.m = 1 + static_cast<std::int64_t>(seed * 7 % 90),
                        .n = 1 + static_cast<std::int64_t>(seed * 13 % 150),
                        .k = 1 + static_cast<std::int64_t>(seed * 29 % 300),
                        .out_dtype = seed % 2 == 0 ? Dtype::f32 : Dtype::bf16,
                        .accumulate = seed % 3 == 0};
    problem.a = {seed % 5 < 3 ? Dtype::e4m3 : Dtype::e5m2, kPairs[seed % 3][0]};
    problem.b = {seed % 4 < 2 ? Dtype::e4m3 : Dtype::e5m2, kPairs[seed % 3][1]};
    const GateReport report = check_gemm(problem, options_of_seed(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(CorrectOperators, DequantizeAndRepackPassInEveryBlock) {
  std::uint64_t seed = 0;
  for (const BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128, kEachRow, kEachColumn,
                                 kWholeTensor, kBlock1x32, kBlock32x32}) {
    for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      for (const Dtype out : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const DequantizeProblem problem{133, 270, format, block, out, kCpu};
        const GateReport report = check_dequantize(problem, options_of_seed(++seed));
        ASSERT_TRUE(report.pass()) << describe(problem) << "\n" << describe(report.results);
        EXPECT_EQ(count(report, "E2"), 1);
      }
      for (const bool transposed : {false, true}) {
        const RepackProblem problem{133, 270, format, block, kCpu};
        DataOptions options = options_of_seed(++seed);
        options.transposed_source = transposed;
        const GateReport report = check_repack(problem, options);
        ASSERT_TRUE(report.pass()) << describe(problem) << "\n" << describe(report.results);
        EXPECT_EQ(count(report, "Q"), 1);
      }
    }
  }
}

TEST(CorrectOperators, ALayerForInferenceIsJudgedOnlyByItsOutput) {
  Fp8LinearProblem problem = layer_of({50, 60, 70});
  problem.training = false;
  const GateReport report = check_fp8_linear(problem, {});
  EXPECT_TRUE(report.pass()) << describe(report.results);
  EXPECT_EQ(report.results.size(), 5u);
}

// dw of one row is a product of two numbers, and some are subnormal in f16.
TEST(CorrectOperators, AnF16ProductOfOneRowPassesWithAnySeed) {
  GemmProblem problem;
  problem.m = 256;
  problem.n = 384;
  problem.k = 1;
  problem.a = problem.b = {Dtype::f16, kUnscaled, Major::mn};
  problem.out_dtype = Dtype::f16;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    DataOptions options;
    options.seed = seed;
    const GateReport report = check_gemm(problem, options);
    EXPECT_TRUE(report.pass()) << "seed " << seed << "\n" << describe(report.results);
  }
}

TEST(CorrectOperators, AReportOfNothingDoesNotPass) {
  EXPECT_FALSE(GateReport{}.pass());
  EXPECT_TRUE(std::isnan(GateReport{}.snr_db("G2", "y")));
}

TEST(CorrectOperators, WhatCannotRunIsRefusedBeforeDataIsMade) {
  GemmProblem problem;
  problem.m = problem.n = 4;
  EXPECT_THROW(check_gemm(problem, {}), Error);
  problem.k = 4;
  DataOptions options;
  options.backend = "nonsense";
  EXPECT_THROW(check_gemm(problem, options), Error);
  EXPECT_THROW(check_fp8_linear(layer_of({1, 0, 1}), {}), Error);
}

}  // namespace
}  // namespace octet
