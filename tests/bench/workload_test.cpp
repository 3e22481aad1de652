// The workloads that are timed compute what they claim: they really run, on small layers.
#include "bench/timing/device_timing.hpp"
#include "bench/timing/machine_facts.hpp"
#include "bench/workloads/memory.hpp"
#include "bench/workloads/openblas.hpp"
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "support/environment.hpp"

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

TEST(Inputs, TheMemoryOfTheCpuIsLimited) {
  if (memory_bytes() == 0) GTEST_SKIP() << "/proc/meminfo does not say how much memory there is";
  EXPECT_GT(free_bytes(kCpu), 0u);
  EXPECT_LT(free_bytes(kCpu), memory_bytes());
}

TEST(Inputs, EverySetHoldsTheSameNumbers) {
  const std::vector<LayerInputs> sets = make_layer_inputs({.m = 8, .n = 16, .k = 32}, {}, 3);
  ASSERT_EQ(sets.size(), 3u);
  for (const LayerInputs& set : sets) {
    EXPECT_EQ(set.x.bytes(), 8u * 32 * 2);
    EXPECT_EQ(std::memcmp(set.x.data(), sets[0].x.data(), set.x.bytes()), 0);
    EXPECT_EQ(std::memcmp(set.w.data(), sets[0].w.data(), set.w.bytes()), 0);
    EXPECT_EQ(std::memcmp(set.dy.data(), sets[0].dy.data(), set.dy.bytes()), 0);
  }
}

TEST(Workload, PlainProductsDescribeViewsOfTheSameTensors) {
  Fp8LinearProblem problem{.m = 2, .n = 3, .k = 4, .dtype = Dtype::f16};
  problem.dw_dtype = Dtype::f32;
  problem.accumulate_dw = true;
  const LinearProducts products = plain_products(problem);
  EXPECT_EQ(describe(products.y), "gemm --shape 2x3x4 --a f16 --b f16 --out f16 --device cpu");
  EXPECT_EQ(describe(products.dx), "gemm --shape 2x4x3 --a f16 --b f16:mn --out f16 --device cpu");
  EXPECT_EQ(describe(products.dw),
            "gemm --shape 3x4x2 --a f16:mn --b f16:mn --out f32 --accumulate --device cpu");
}

TEST(Workload, EveryKindRunsAForwardAndABackward) {
  Fp8LinearProblem problem;
  problem.m = 5;
  problem.n = 130;
  problem.k = 129;
  std::vector<std::unique_ptr<Workload>> workloads;
  workloads.push_back(make_workload(problem, {}));
  workloads.push_back(make_fp8_products(problem, {}));
  workloads.push_back(make_plain_products(problem, {}));
  workloads.push_back(beside(make_workload(problem, {}), make_fp8_products(problem, {})));
  for (const auto& workload : workloads) {
    EXPECT_NE(workload->implementation().find("cpu_"), std::string::npos);
    EXPECT_FALSE(workload->configuration().empty());
    EXPECT_EQ(workload->calls().size(), 2u);
    workload->allocate(2);
    ASSERT_EQ(workload->task().size(), 2u);
    for (int i = 0; i < 3; ++i) {
      for (const Part& part : workload->task()) EXPECT_NO_THROW(part(i));
      for (const Part& part : workload->peer()) EXPECT_NO_THROW(part(i));
    }
  }
  EXPECT_TRUE(workloads[0]->peer().empty());
  EXPECT_EQ(workloads[3]->peer().size(), 2u);
  EXPECT_EQ(workloads[3]->implementation(), workloads[0]->implementation()) << "ours is named";
}

TEST(Workload, CountsWhatItAllocates) {
  Fp8LinearProblem problem;
  problem.m = 128;
  problem.n = 256;
  problem.k = 512;
  const std::size_t x = std::size_t{128} * 512;
  const std::size_t w = std::size_t{256} * 512;
  const std::size_t y = std::size_t{128} * 256;
  // At least x, w, dy, y, dx and dw in bf16, and FP8 copies of x, w and dy.
  const std::size_t least = 2 * (2 * x + 2 * w + 2 * y) + x + w + 2 * y;
  for (const auto& workload : {make_workload(problem, {}), make_fp8_products(problem, {})}) {
    EXPECT_GE(workload->bytes(), least);
    EXPECT_LE(workload->bytes(), 2 * least + (1 << 22)) << "and the scratch of the CPU's products";
  }
}

TEST(Workload, UnknownBackendIsRefusedBeforeAnyAllocation) {
  Fp8LinearProblem problem;
  problem.m = problem.n = problem.k = 1;
  DataOptions options;
  options.backend = "nonsense";
  EXPECT_THROW(make_workload(problem, options), Error);
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
  const double snr = f16_product_snr_db({.m = 70, .n = 300, .k = 256}, {});
  EXPECT_GT(snr, 70);
  EXPECT_LT(snr, 78);
}

// Runs every call and copy of a workload often enough to reuse its sets. Returns its calls.
template <class Problem>
std::vector<Workload::Call> calls_of(const Problem& problem) {
  const auto workload = make_workload(problem, {});
  workload->allocate(2);
  for (int i = 0; i < 3; ++i) {
    for (const Part& part : workload->task()) EXPECT_NO_THROW(part(i));
    for (const Part& part : workload->peer()) EXPECT_NO_THROW(part(i));
  }
  return workload->calls();
}

TEST(AttentionWorkload, RunsInEveryLayoutAndOverLengths) {
  AttentionProblem problem;
  problem.batch = 2;
  problem.seq_q = problem.seq_kv = 20;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.dim_qk = 16;
  problem.sink = true;
  const std::size_t rows = 2 * 20;
  // q, k, v and their gradients, out and dout in bf16, lse in f32
  const std::size_t least = rows * (2 * 2 * (4 + 2 + 2) * 16 + 2 * 2 * 4 * 16 + 4 * 4);
  for (const HeadLayout layout :
       {HeadLayout::bshd, HeadLayout::sbhd, HeadLayout::bhsd, HeadLayout::packed}) {
    DataOptions options;
    options.head_layout = layout;
    const auto workload = make_workload(problem, options);
    EXPECT_GE(workload->bytes(), least);
    EXPECT_EQ(workload->calls().size(), 2u);
    workload->allocate(2);
    for (int i = 0; i < 3; ++i) {
      for (const Part& part : workload->task()) EXPECT_NO_THROW(part(i));
    }
    EXPECT_TRUE(workload->peer().empty());
  }
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = problem.total_kv = 32;
  EXPECT_EQ(calls_of(problem).size(), 2u) << "two sequences of 16";
}

TEST(MemoryWorkload, OfACastCountsEveryByteReadAndWritten) {
  QuantizeProblem problem;
  problem.rows = 128;
  problem.cols = 256;
  problem.transposed_block = kBlock1x128;
  const auto calls = calls_of(problem);
  ASSERT_EQ(calls.size(), 1u);
  // bf16 in, two FP8 copies, 128 x 2 and 256 x 1 scales.
  EXPECT_EQ(calls[0].bytes, 128u * 256 * 4 + (256 + 256) * 4);
}

TEST(MemoryWorkload, OfANormCountsEveryTensorOnce) {
  RmsNormProblem problem{.rows = 12, .cols = 130};
  auto calls = calls_of(problem);
  ASSERT_EQ(calls.size(), 2u);
  const std::size_t matrix = 12 * 130 * 2;
  EXPECT_EQ(calls[0].bytes, 2 * matrix + 130 * 2 + 12 * 4) << "x, y, g and rstd";
  EXPECT_EQ(calls[1].bytes, 3 * matrix + 130 * 2 + 12 * 4 + 130 * 4) << "dy, h, dx, g, rstd, dg";
  problem.residual = true;
  problem.fp8 = Fp8Output{};
  calls = calls_of(problem);
  const std::size_t fp8 = 2 * 12 * 130 + (12 * 2 + 130) * 4;
  EXPECT_EQ(calls[0].bytes, 3 * matrix + fp8 + 130 * 2 + 12 * 4) << "and residual, sum; y in FP8";
  EXPECT_EQ(calls[1].bytes, 4 * matrix + 130 * 2 + 12 * 4 + 130 * 4) << "and dsum";
}

TEST(MemoryWorkload, OfANormTakesAnImplementationThatForwardAloneHas) {
  RmsNormProblem problem{.rows = 12, .cols = 130};
  problem.fp8 = Fp8Output{};
  DataOptions options;
  options.backend = "unfused";
  const auto expect_forward_alone = [&](const DataOptions& given) {
    const auto calls = make_workload(problem, given)->calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0].implementation, "unfused");
    EXPECT_EQ(calls[1].implementation, plan_rms_norm_backward(problem).implementation);
  };
  expect_forward_alone(options);
  const ScopedVariable variable("OCTET_RMS_NORM_BACKEND", "unfused");
  expect_forward_alone({});
}

TEST(MemoryWorkload, OfARotationCountsHeadsCachesAndPositions) {
  RopeProblem problem{.batch = 2, .seq = 6, .q_heads = 3, .k_heads = 1, .head_dim = 16};
  problem.rotation.rotary_dim = 8;
  problem.rotation.cache_rows = 10;
  problem.rotation.positions_dtype = Dtype::i64;
  const auto calls = calls_of(problem);
  ASSERT_EQ(calls.size(), 2u);
  const std::size_t heads = 2 * 6 * 4 * 16 * 2;
  EXPECT_EQ(calls[0].bytes, 2 * heads + 2 * 10 * 4 * 4 + 2 * 6 * 8);
  EXPECT_EQ(calls[1].bytes, calls[0].bytes);
}

TEST(MemoryWorkload, OfANormWithRotationCountsWeightsByScope) {
  RmsNormRopeProblem problem{.batch = 2, .seq = 6, .q_heads = 3, .k_heads = 1, .head_dim = 16};
  const std::size_t heads = 2 * 6 * 4 * 16 * 2;
  const std::size_t caches = 2 * 6 * 8 * 4;
  auto calls = calls_of(problem);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].bytes, 2 * heads + caches + 4 * 16 * 2 + 2 * 12 * 4);
  EXPECT_EQ(calls[1].bytes, 3 * heads + caches + 4 * 16 * (2 + 4) + 2 * 12 * 4);
  problem.norm = NormScope::head;
  calls = calls_of(problem);
  EXPECT_EQ(calls[0].bytes, 2 * heads + caches + 2 * 16 * 2 + 4 * 12 * 4);
}

TEST(MemoryWorkload, OfAGatedActivationCountsFp8Gradients) {
  GatedActivationProblem problem{.rows = 12, .cols = 130};
  problem.row_weight = true;
  const std::size_t matrix = 12 * 130 * 2;
  auto calls = calls_of(problem);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].bytes, 3 * matrix + 12 * 4);
  EXPECT_EQ(calls[1].bytes, 5 * matrix + 2 * 12 * 4);
  problem.row_weight = false;
  problem.fp8 = Fp8Output{};
  calls = calls_of(problem);
  EXPECT_EQ(calls[0].bytes, 2 * matrix + 2 * 12 * 130 + (12 * 2 + 130) * 4);
  EXPECT_EQ(calls[1].bytes, 3 * matrix + 2 * 12 * 260 + (12 * 3 + 260) * 4);
}

}  // namespace
}  // namespace octet::bench
