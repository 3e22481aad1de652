// cpu_simd against cpu_reference: the same bits on random shapes, data, pairings and outputs.
#include <gtest/gtest.h>

#include "ops/gemm/product_case.hpp"

#include <cmath>
#include <thread>

namespace octet::testing {
namespace {

enum class Data { ordinary, non_finite, zeros, tiny, huge, one_outlier };

float random_scale(Data data, std::mt19937_64& random) {
  std::uniform_real_distribution<float> uniform(0.5f, 2.0f);
  switch (data) {
    case Data::tiny: return uniform(random) * 1e-38f;
    case Data::huge: return uniform(random) * 1e15f;
    case Data::one_outlier: return random() % 16 == 0 ? 1e8f : uniform(random);
    default: return uniform(random);
  }
}

std::uint8_t random_code(Data data, Dtype dtype, std::mt19937_64& random) {
  if (data == Data::zeros) return random() % 2 == 0 ? 0x00 : 0x80;
  const auto code = static_cast<std::uint8_t>(random());
  const float value = dtype == Dtype::e4m3 ? f32_from_e4m3(code) : f32_from_e5m2(code);
  if (!std::isfinite(value) && !(data == Data::non_finite && random() % 8 == 0)) return 0x2A;
  return code;
}

QuantizedTensor random_fp8(std::int64_t rows, std::int64_t k, const GemmOperand& operand, Data data,
                           std::mt19937_64& random) {
  QuantizedTensor tensor(rows, k, operand.dtype, operand.block);
  const QuantizedView& view = tensor.view();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < k; ++c)
      value_at(view, r, c) = random_code(data, operand.dtype, random);
  }
  for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
      scale_at(view, r, c) = random_scale(data, random);
    }
  }
  return tensor;
}

// Equal bits, or NaN on both sides: processors differ in which NaN they return.
bool same(const Tensor& x, const Tensor& y, std::int64_t index) {
  const Dtype dtype = x.view().dtype;
  const float u = load_f32(x.data(), index, dtype);
  const float v = load_f32(y.data(), index, dtype);
  return bits_of(u) == bits_of(v) || (std::isnan(u) && std::isnan(v));
}

void expect_same_bits(const GemmProblem& problem, const QuantizedView& a, const QuantizedView& b,
                      std::uint64_t seed) {
  ASSERT_FALSE(simd_runners().empty()) << "this machine has no AVX2";
  std::mt19937_64 random(seed);
  const Tensor bias = integer_bias(problem);
  const Tensor before(problem.out_dtype, {problem.m, problem.n});
  for (std::int64_t i = 0; i < problem.m * problem.n; ++i) {
    const float value = static_cast<float>(static_cast<std::int64_t>(random() % 2001) - 1000);
    store_f32(before.data(), i, problem.out_dtype, problem.accumulate ? value : NAN);
  }
  const Tensor wanted(problem.out_dtype, {problem.m, problem.n});
  std::memcpy(wanted.data(), before.data(), before.bytes());
  through_the_api("cpu_reference").run(problem, {a, b, wanted, bias.view()}, 2);
  for (const Runner& runner : simd_runners()) {
    const Tensor given(problem.out_dtype, {problem.m, problem.n});
    std::memcpy(given.data(), before.data(), before.bytes());
    runner.run(problem, {a, b, given, bias.view()}, 1 + static_cast<int>(random() % 4));
    for (std::int64_t i = 0; i < problem.m * problem.n; ++i) {
      ASSERT_TRUE(same(wanted, given, i))
          << runner.name << ": " << seed_and_command(seed, problem) << " at row " << i / problem.n
          << ", column " << i % problem.n << ": " << load_f32(given.data(), i, problem.out_dtype)
          << " instead of " << load_f32(wanted.data(), i, problem.out_dtype);
    }
  }
}

std::int64_t random_extent(std::mt19937_64& random, std::int64_t largest) {
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest));
}

constexpr Dtype kOuts[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

class GemmSimd : public ::testing::TestWithParam<Data> {};

TEST_P(GemmSimd, EqualsTheReferenceInEveryBitOnFp8) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(GetParam()));
    GemmProblem problem{.m = random_extent(random, 70),
                        .n = random_extent(random, 150),
                        .k = random_extent(random, 600)};
    const bool squares_left = random() % 4 == 0;
    problem.a = {random() % 2 ? Dtype::e4m3 : Dtype::e5m2,
                 squares_left ? kBlock128x128 : kBlock1x128};
    problem.b = {random() % 2 ? Dtype::e4m3 : Dtype::e5m2,
                 !squares_left && random() % 2 ? kBlock128x128 : kBlock1x128};
    problem.out_dtype = kOuts[random() % 3];
    problem.accumulate = problem.out_dtype != Dtype::f16 && random() % 2;
    if (!problem.accumulate && random() % 2) problem.bias_dtype = bias_dtypes(problem.out_dtype)[0];
    const QuantizedTensor a = random_fp8(problem.m, problem.k, problem.a, GetParam(), random);
    const QuantizedTensor b = random_fp8(problem.n, problem.k, problem.b, GetParam(), random);
    expect_same_bits(problem, a, b, seed);
  }
}

std::string data_name(const ::testing::TestParamInfo<Data>& data) {
  constexpr const char* kNames[] = {"ordinary", "non_finite", "zeros",
                                    "tiny",     "huge",       "one_outlier"};
  return kNames[static_cast<int>(data.param)];
}

INSTANTIATE_TEST_SUITE_P(Data, GemmSimd,
                         ::testing::Values(Data::ordinary, Data::non_finite, Data::zeros,
                                           Data::tiny, Data::huge, Data::one_outlier),
                         data_name);

// f32, f16 and bf16 operands, either dimension contiguous, rows padded.
TEST(GemmSimdUnscaled, EqualsTheReferenceInEveryBit) {
  constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    GemmProblem problem{.m = random_extent(random, 60),
                        .n = random_extent(random, 120),
                        .k = random_extent(random, 400)};
    const Dtype dtype = kDtypes[random() % 3];
    problem.a = {dtype, {}, random() % 2 ? Major::k : Major::mn};
    problem.b = {dtype, {}, random() % 2 ? Major::k : Major::mn};
    problem.out_dtype = kOuts[random() % 3];
    problem.accumulate = problem.out_dtype != Dtype::f16 && random() % 2;
    const auto make = [&](std::int64_t rows, Major major, Tensor& storage) {
      const std::int64_t lines = major == Major::k ? rows : problem.k;
      const std::int64_t length = major == Major::k ? problem.k : rows;
      const std::int64_t pitch = length + static_cast<std::int64_t>(random() % 5);
      storage = Tensor(dtype, {lines, pitch});
      for (std::int64_t i = 0; i < lines * pitch; ++i) {
        store_f32(storage.data(), i, dtype, normal(random));
      }
      const TensorView view = make_matrix(storage.data(), dtype, lines, length, pitch);
      return major == Major::k ? view : transposed(view);
    };
    Tensor a_storage;
    Tensor b_storage;
    const TensorView a = make(problem.m, problem.a.major, a_storage);
    const TensorView b = make(problem.n, problem.b.major, b_storage);
    expect_same_bits(problem, a, b, seed);
  }
}

// A foreign FP8 view: 16-byte pitch, scales in the other order, garbage between the rows.
TEST(GemmSimdUnscaled, NeverReadsPaddingAsData) {
  std::mt19937_64 random(3);
  GemmProblem problem{.m = 37, .n = 53, .k = 200};
  problem.b.block = kBlock1x128;
  const QuantizedTensor a = random_fp8(problem.m, problem.k, problem.a, Data::ordinary, random);
  const QuantizedTensor b = random_fp8(problem.n, problem.k, problem.b, Data::ordinary, random);
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(problem.m) * 208 + 16, 0x7F);  // NaN
  auto* start = memory.data() + 16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16;
  std::vector<float> scales(static_cast<std::size_t>(problem.m) * 2);
  QuantizedView foreign(make_matrix(start, Dtype::e4m3, problem.m, problem.k, 208),
                        make_view(static_cast<void*>(scales.data()), Dtype::f32, {problem.m, 2}),
                        kBlock1x128);
  for (std::int64_t r = 0; r < problem.m; ++r) {
    for (std::int64_t c = 0; c < problem.k; ++c) value_at(foreign, r, c) = value_at(a, r, c);
    for (std::int64_t c = 0; c < 2; ++c) scale_at(foreign, r, c) = scale_at(a, r, c);
  }
  const Tensor wanted(Dtype::bf16, {problem.m, problem.n});
  through_the_api("cpu_reference").run(problem, {a, b, wanted}, 1);
  for (const Runner& runner : all_runners()) {
    const Tensor given(Dtype::bf16, {problem.m, problem.n});
    runner.run(problem, {foreign, b, given}, 2);
    EXPECT_EQ(std::memcmp(given.data(), wanted.data(), given.bytes()), 0) << runner.name;
  }
}

TEST(GemmSimdChunks, MemoryIsBoundedWhateverTheProblem) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    GemmProblem problem{.m = random_extent(random, i % 2 ? 100 : 1 << 20),
                        .n = random_extent(random, i % 3 ? 100 : 1 << 20),
                        .k = random_extent(random, i % 5 ? 100 : 1 << 20)};
    Machine machine;
    machine.avx2 = true;
    machine.avx512 = i % 4 == 0;
    for (const auto& [kernels, chunks, predicted] :
         simd_products(product_bounds(problem), machine)) {
      EXPECT_LE(chunks.bytes(), std::size_t{26} << 20) << describe(problem);
      EXPECT_EQ(chunks.rows % kernels->rows, 0);
      EXPECT_EQ(chunks.cols % kernels->cols, 0);
      EXPECT_EQ(chunks.depth % kBlock, 0);
      EXPECT_GE(predicted, 1);
    }
  }
}

// A tile that pads little is worth more than a faster one that pads much: 24 rows by 16 columns.
TEST(GemmSimdTiles, ThoseThatPadLeastAreTakenForNarrowProducts) {
  Machine machine;
  machine.avx2 = machine.avx512 = true;
  const auto tile = [&](const GemmProblem& problem) {
    const GemmKernels& kernels = *simd_products(product_bounds(problem), machine)[0].kernels;
    return text(kernels.rows, "x", kernels.cols);
  };
  EXPECT_EQ(tile({.m = 1024, .n = 1024, .k = 1024}), "8x48");
  EXPECT_EQ(tile({.m = 24, .n = 16, .k = 1024}), "24x16");
  EXPECT_EQ(tile({.m = 1000, .n = 32, .k = 1024}), "12x32");
  EXPECT_EQ(tile({.m = 1, .n = 4096, .k = 1024}), "8x48");
  machine.avx512 = false;
  EXPECT_EQ(tile({.m = 1024, .n = 1024, .k = 1024}), "4x24");
  EXPECT_EQ(tile({.m = 1000, .n = 16, .k = 1024}), "4x16");
  EXPECT_EQ(tile({.m = 1000, .n = 8, .k = 1024}), "8x8");
}

TEST(GemmThreads, CountAndCallersNeverChangeABit) {
  std::mt19937_64 random(11);
  GemmProblem problem{.m = 150, .n = 700, .k = 500};
  const QuantizedTensor a = random_fp8(problem.m, problem.k, problem.a, Data::ordinary, random);
  const QuantizedTensor b = random_fp8(problem.n, problem.k, problem.b, Data::ordinary, random);
  const Tensor wanted(Dtype::bf16, {problem.m, problem.n});
  const GemmPlan plan = plan_gemm(problem, {"", 1});
  const Buffer workspace(plan.workspace_bytes);
  run(plan, {a, b, wanted}, {workspace.data(), workspace.bytes()});

  std::vector<std::thread> callers;
  std::vector<int> different(8, -1);
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      const GemmPlan own = plan_gemm(problem, {"", 1 + caller % 5});
      const Buffer memory(own.workspace_bytes);
      const Tensor given(Dtype::bf16, {problem.m, problem.n});
      int mismatches = 0;
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::memset(given.data(), 0xFF, given.bytes());
        run(own, {a, b, given}, {memory.data(), memory.bytes()});
        mismatches += std::memcmp(given.data(), wanted.data(), given.bytes()) != 0;
      }
      different[static_cast<std::size_t>(caller)] = mismatches;
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int mismatches : different) EXPECT_EQ(mismatches, 0);
}

}  // namespace
}  // namespace octet::testing
