// Each instruction set against the reference, bit for bit; the reference against f64; maps that are
// wrong; and any number of threads.
#include "ops/moe_permute/case.hpp"

#include "support/rounding.hpp"

#include <cstring>
#include <limits>

namespace octet {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

template <class Change>
void expect_simd_equals_reference(const RowsShape& shape, std::uint64_t seed,
                                  const Change& change) {
  RowsCase wanted(shape, seed);
  change(wanted);
  run_with(wanted, {"cpu_reference"});
  for (const InstructionSet instructions : instruction_sets()) {
    RowsCase given(shape, seed);
    change(given);
    run_all(given, [&](const auto& problem, const auto& args) {
      run_pass(problem, check(problem, args, 0, {}), *simd_steps(2, instructions));
    });
    expect_equal(given, wanted, name(instructions));
  }
}

TEST(MoePermuteSimd, EqualsTheReference) {
  ASSERT_FALSE(instruction_sets().empty()) << "this machine has no AVX2";
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t cols : {1, 15, 64, 129, 515}) {
      for (const std::int64_t rows : {1, 40, 90}) {
        const RowsShape shape{21, 4, rows, cols, dtype, cols % 2 == 1};
        expect_simd_equals_reference(shape, static_cast<std::uint64_t>(cols + rows),
                                     [](RowsCase&) {});
      }
    }
  }
}

// Zeros of both signs, subnormals, the largest values and infinities. NaN would differ in payload.
TEST(MoePermuteSimd, EqualsTheReferenceForSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValues[] = {0, -0.0f, 1, -1, 1e-40f, -1e-40f, 6e-8f, 3e38f, 65000, kInfinity};
  for (const Dtype dtype : kDtypes) {
    expect_simd_equals_reference({40, 1, 44, 70, dtype, false}, 3, [&](RowsCase& one) {
      for (std::int64_t t = 0; t < 40; ++t) {
        for (std::int64_t c = 0; c < 70; ++c) one.x.set(t, c, kValues[(t + c) % 10]);
      }
    });
  }
}

TEST(MoePermuteSimd, NanStaysNan) {
  for (const Dtype dtype : kDtypes) {
    RowsCase one({8, 2, 16, 70, dtype, true});
    for (std::int64_t c = 0; c < 70; ++c) one.x.set(5, c, NAN);
    run_with(one, {"cpu_simd"});
    for (std::int64_t c = 0; c < 70; ++c) {
      EXPECT_TRUE(std::isnan(one.dx.at(5, c)));
      EXPECT_FALSE(std::isnan(one.dx.at(4, c)));
    }
    EXPECT_TRUE(std::isnan(one.dweights.at(5, 1))) << "(5, 0) has no row";
  }
}

// Numbers out of range and maps that contradict each other count as -1.
TEST(MoePermuteSimd, WrongMapsTouchNothingOutside) {
  expect_simd_equals_reference({20, 3, 50, 33, Dtype::bf16, true}, 5, [](RowsCase& one) {
    one.row_of.integer(0, 0) = 50;
    one.row_of.integer(1, 0) = std::numeric_limits<std::int32_t>::max();
    one.row_of.integer(2, 0) = std::numeric_limits<std::int32_t>::min();
    one.row_of.integer(4, 1) = one.row_of.integer(3, 1);
    one.source[7] = 60;
    one.source[8] = -9;
    one.source[9] = one.source[10];
  });
}

TEST(MoeUnpermuteReference, MatchesF64) {
  for (const Dtype dtype : kDtypes) {
    RowsCase one({30, 5, 200, 77, dtype, true}, 11);
    run_with(one, {});
    const double half_ulp = dtype == Dtype::f32 ? 0x1p-24 : dtype == Dtype::f16 ? 0x1p-11 : 0x1p-8;
    for (std::int64_t t = 0; t < 30; ++t) {
      for (std::int64_t k = 0; k < 5; ++k) {
        double dot = 0, size = 0;
        const std::int64_t row = one.row_of.integer(t, k);
        for (std::int64_t c = 0; row >= 0 && c < 77; ++c) {
          const double term = double{one.x.at(t, c)} * double{one.grouped.at(row, c)};
          dot += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(one.dweights.at(t, k), dot, 1e-6 * size);
      }
      for (std::int64_t c = 0; c < 77; ++c) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < 5; ++k) {
          const std::int64_t row = one.row_of.integer(t, k);
          if (row < 0) continue;
          const double term = double{one.weights.at(t, k)} * double{one.grouped.at(row, c)};
          sum += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(one.dx.at(t, c), sum, half_ulp * std::fabs(sum) + 1e-6 * size);
      }
    }
    for (std::size_t r = 0; r < 200; ++r) {
      for (std::int64_t c = 0; c < 77; ++c) {
        const std::int32_t slot = one.source[r];
        const double wanted = slot < 0
                                  ? 0
                                  : testing::rounded(double{one.weights.at(slot / 5, slot % 5)} *
                                                         double{one.x.at(slot / 5, c)},
                                                     dtype);
        // f32 products of 24-bit factors are rounded before they are rounded to 16 bits.
        EXPECT_NEAR(one.dgrouped.at(static_cast<std::int64_t>(r), c), wanted,
                    2.01 * half_ulp * std::fabs(wanted));
      }
    }
  }
}

TEST(MoePermuteThreads, TheirNumberChangesNoBit) {
  const RowsShape shape{300, 3, 1000, 50, Dtype::bf16, true};
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    RowsCase one(shape), many(shape);
    run_with(one, {backend, 1});
    run_with(many, {backend, 5});
    expect_equal(many, one, backend);
  }
}

// Outputs large enough for stores past the caches.
TEST(MoePermuteSimd, StreamedRowsEqualTheReference) {
  const std::int64_t tokens = 700, cols = 4096, rows = 1410;
  const MoeUnpermuteProblem problem{tokens, 2, rows, cols, Dtype::bf16, true};
  const RowsCase maps({tokens, 2, rows, 1, Dtype::bf16, true}, 9);
  const auto dense = [&](std::int64_t count) { return Tensor(Dtype::bf16, {count, cols}); };
  Tensor x = dense(tokens);
  for (std::int64_t i = 0; i < tokens * cols; ++i) {
    store_f32(x.data(), i, Dtype::bf16, static_cast<float>(i % 1021) - 500);
  }
  const auto bytes = [](const Tensor& tensor) {
    return std::vector<char>(
        static_cast<const char*>(tensor.data()),
        static_cast<const char*>(tensor.data()) + tensor.view().rows() * tensor.view().cols() * 2);
  };
  const auto results = [&](const char* backend) {
    Tensor grouped = dense(rows), dgrouped = dense(rows), out = dense(tokens);
    run(plan_moe_permute_forward({tokens, 2, rows, cols}, {backend}),
        {x, {}, maps.row_of.view(), maps.source_view(), grouped, {}});
    run(plan_moe_unpermute_forward(problem, {backend}),
        {grouped, maps.weights.view(), maps.row_of.view(), out});
    run(plan_moe_unpermute_backward(problem, {backend}),
        {x, grouped, maps.weights.view(), maps.row_of.view(), maps.source_view(), dgrouped,
         maps.dweights.view()});
    return std::vector{bytes(grouped), bytes(out), bytes(dgrouped)};
  };
  EXPECT_TRUE(results("cpu_simd") == results("cpu_reference"));
}

}  // namespace
}  // namespace octet
