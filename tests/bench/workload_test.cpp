// What is timed computes what it says: the workloads are run for real, on small layers.
#include "bench/cache_flush.hpp"
#include "bench/f16_error.hpp"
#include "bench/inputs.hpp"
#include "bench/memory.hpp"
#include "bench/openblas.hpp"
#include "bench/quantize_workload.hpp"
#include "bench/workload.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace octet::bench {
namespace {

TEST(Inputs, RotateOverTwiceTheCacheWhereTheyFitIt) {
  EXPECT_EQ(input_set_count(10, 100, 1000), 20);
  EXPECT_EQ(input_set_count(11, 100, 1000), 19);
  EXPECT_EQ(input_set_count(200, 100, 1000), 1);
  EXPECT_EQ(input_set_count(10, 100, 3), 3) << "no more sets than calls";
  EXPECT_EQ(input_set_count(10, 0, 1000), 1) << "an unknown cache asks for nothing";
}

TEST(CacheFlush, WritesTwiceTheCacheAtLeast) {
  const CacheFlush flush(kCpu, nullptr);
  EXPECT_GE(flush.bytes(), 2 * cache_bytes(kCpu));
  EXPECT_GT(flush.bytes(), 0u) << "even where the system does not say how large it is";
  EXPECT_NO_THROW(flush());
}

TEST(Memory, PiecesCoverEveryByteOnce) {
  for (const std::size_t bytes : {0u, 1u, 7u, 1000u}) {
    std::vector<std::atomic<int>> seen(bytes);
    for_each_piece(bytes, 3, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const auto& count : seen) ASSERT_EQ(count, 1) << bytes;
  }
}

TEST(Inputs, WhatIsNotFreeIsRefusedWithBothNumbers) {
  EXPECT_NO_THROW(require_free(10, 10, kCpu));
  try {
    require_free(std::size_t{3} << 30, std::size_t{1} << 29, {DeviceType::cuda, 1});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_STREQ(error.what(),
                 "bench: the workload takes 3.0 GiB on cuda:1, of which 0.5 GiB are free");
  }
}

TEST(Inputs, EverySetHoldsTheSameNumbers) {
  const std::vector<LayerInputs> sets = make_layer_inputs({8, 16, 32}, Dtype::bf16, kCpu, {}, 3);
  ASSERT_EQ(sets.size(), 3u);
  for (const LayerInputs& set : sets) {
    EXPECT_EQ(set.x.bytes(), 8u * 32 * 2);
    EXPECT_EQ(std::memcmp(set.x.data(), sets[0].x.data(), set.x.bytes()), 0);
    EXPECT_EQ(std::memcmp(set.w.data(), sets[0].w.data(), set.w.bytes()), 0);
    EXPECT_EQ(std::memcmp(set.dy.data(), sets[0].dy.data(), set.dy.bytes()), 0);
  }
}

TEST(Workload, PlainProductsDescribeViewsOfTheSameTensors) {
  const LayerProducts products =
      plain_layer_products({2, 3, 4}, Dtype::f16, Dtype::f32, true, kCpu);
  EXPECT_EQ(describe(products.forward),
            "gemm --shape 2x3x4 --a f16 --b f16 --out f16 --device cpu");
  EXPECT_EQ(describe(products.dx), "gemm --shape 2x4x3 --a f16 --b f16:mn --out f16 --device cpu");
  EXPECT_EQ(describe(products.dw),
            "gemm --shape 3x4x2 --a f16:mn --b f16:mn --out f32 --accumulate --device cpu");
}

TEST(Workload, EveryKindRunsAForwardAndABackward) {
  Fp8LinearProblem problem;
  problem.m = 5;
  problem.n = 130;
  problem.k = 129;
  const LayerShape shape{problem.m, problem.n, problem.k};
  const auto products = plain_layer_products(shape, Dtype::bf16, Dtype::bf16, false, kCpu);
  std::vector<std::unique_ptr<Workload>> workloads;
  workloads.push_back(make_fp8_layer(problem, {}));
  workloads.push_back(make_fp8_products(problem, {}));
  workloads.push_back(make_plain_products(products, {}));
  for (const auto& workload : workloads) {
    EXPECT_NE(workload->implementation().find("cpu_"), std::string::npos);
    EXPECT_FALSE(workload->configuration().empty());
    workload->allocate(2);
    for (int i = 0; i < 3; ++i) {
      EXPECT_NO_THROW(workload->forward(i));
      EXPECT_NO_THROW(workload->backward(i));
    }
  }
}

TEST(Workload, CountsWhatItAllocates) {
  Fp8LinearProblem problem;
  problem.m = 128;
  problem.n = 256;
  problem.k = 512;
  const std::size_t x = std::size_t{128} * 512;
  const std::size_t w = std::size_t{256} * 512;
  const std::size_t y = std::size_t{128} * 256;
  // x, w, dy, y, dx and dw in bf16, and FP8 copies of x, w and dy at least.
  const std::size_t least = 2 * (2 * x + 2 * w + 2 * y) + x + w + 2 * y;
  for (const auto& workload : {make_fp8_layer(problem, {}), make_fp8_products(problem, {})}) {
    EXPECT_GE(workload->bytes(), least);
    EXPECT_LE(workload->bytes(), 2 * least + (1 << 22)) << "and the scratch of the CPU's products";
  }
}

TEST(Workload, UnknownBackendIsRefusedBeforeAnyAllocation) {
  Fp8LinearProblem problem;
  problem.m = problem.n = problem.k = 1;
  WorkloadOptions options;
  options.gemm_backend = "nonsense";
  EXPECT_THROW(make_fp8_layer(problem, options), Error);
  EXPECT_THROW(make_fp8_products(problem, options), Error);
}

TEST(OpenBlas, MultipliesByTheTransposeAndAccumulates) {
  const OpenBlas& library = OpenBlas::load();
  library.set_threads(1);
  const float a[] = {1, 2, 3, 4, 5, 6};   // [2, 3]
  const float b[] = {1, 0, -1, 2, 2, 2};  // [2, 3]
  float d[] = {100, 100, 100, 100};
  library.sgemm_nt(2, 2, 3, a, b, d, false);
  EXPECT_EQ(d[0], -2);
  EXPECT_EQ(d[1], 12);
  EXPECT_EQ(d[2], -2);
  EXPECT_EQ(d[3], 30);
  library.sgemm_nt(2, 2, 3, a, b, d, true);
  EXPECT_EQ(d[3], 60);
}

TEST(F16Error, OfANormalProductIsThatOfElevenBits) {
  // Rounding the output to 11 bits leaves about 74 dB; operands of 8 bits are exact in f16.
  const double snr = f16_product_snr_db({70, 300, 256}, Dtype::bf16, kCpu, {});
  EXPECT_GT(snr, 70);
  EXPECT_LT(snr, 78);
}

TEST(QuantizeWorkload, CountsEveryByteReadAndWritten) {
  QuantizeProblem problem;
  problem.rows = 128;
  problem.cols = 256;
  problem.transposed_block = kBlock1x128;
  QuantizeWorkload workload(problem, {});
  // bf16 in, two FP8 copies, 128 x 2 and 256 x 1 scales.
  EXPECT_EQ(workload.bytes(), 128u * 256 * 4 + (256 + 256) * 4);
  workload.allocate(1);
  EXPECT_NO_THROW(workload.quantize(0));
  EXPECT_NO_THROW(workload.copy(0));
}

}  // namespace
}  // namespace octet::bench
