// Small integers and powers of two, for which every result is exact: by hand, there and back, and
// each pass as the transpose of its opposite.
#include "ops/moe_permute/case.hpp"

#include <string>

namespace octet {
namespace {

using Floats = std::vector<float>;
constexpr const char* kBackends[] = {"cpu_simd", "cpu_reference"};
constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

// Two tokens with two choices; rows: token 1, token 0, token 1, and one behind the last.
RowsCase by_hand(bool weights, GroupTail tail = GroupTail::zero) {
  RowsCase one({2, 2, 4, 3, Dtype::bf16, weights, tail});
  one.x.set_row(0, {1, 2, 3});
  one.x.set_row(1, {4, 5, 6});
  one.weights.set_row(0, {0.5f, 2});
  one.weights.set_row(1, {4, -1});
  one.source = {3, 0, 2, -1};
  one.row_of.integer(0, 0) = 1;
  one.row_of.integer(0, 1) = -1;
  one.row_of.integer(1, 0) = 2;
  one.row_of.integer(1, 1) = 0;
  return one;
}

TEST(MoePermute, CopiesEveryTokenToItsRows) {
  for (const char* backend : kBackends) {
    const RowsCase one = by_hand(true);
    run(plan_moe_permute_forward(one.shape.permute(), {backend}), one.permute());
    EXPECT_EQ(one.grouped.row(0), Floats({4, 5, 6}));
    EXPECT_EQ(one.grouped.row(1), Floats({1, 2, 3}));
    EXPECT_EQ(one.grouped.row(2), Floats({4, 5, 6}));
    EXPECT_EQ(one.grouped.row(3), Floats({0, 0, 0}));
    EXPECT_EQ(one.row_weight, Floats({-1, 0.5f, 4, 0}));
    one.grouped.expect_gaps_untouched();
  }
}

TEST(MoePermute, LeavesTheTailUntouchedIfAsked) {
  for (const char* backend : kBackends) {
    const RowsCase one = by_hand(true, GroupTail::untouched);
    const RowsCase before = by_hand(true);
    run(plan_moe_permute_forward(one.shape.permute(), {backend}), one.permute());
    EXPECT_EQ(one.grouped.row(3), before.grouped.row(3));
    EXPECT_EQ(one.row_weight, Floats({-1, 0.5f, 4, 7}));
    run(plan_moe_unpermute_backward(one.shape.unpermute(), {backend}), one.unpermute_backward());
    EXPECT_EQ(one.dgrouped.row(3), before.dgrouped.row(3));
  }
}

TEST(MoePermute, BackwardAddsTheRowsOfEveryToken) {
  for (const char* backend : kBackends) {
    RowsCase one = by_hand(true);
    for (std::int64_t r = 0; r < 4; ++r) {
      one.grouped.set_row(r, {1.0f * static_cast<float>(r), 10, -1});
      one.row_weight[static_cast<std::size_t>(r)] = static_cast<float>(r);
    }
    run(plan_moe_permute_backward(one.shape.permute(), {backend}), one.permute_backward());
    EXPECT_EQ(one.dx.row(0), Floats({1, 10, -1}));
    EXPECT_EQ(one.dx.row(1), Floats({2, 20, -2}));
    EXPECT_EQ(one.dweights.row(0), Floats({1, 0}));
    EXPECT_EQ(one.dweights.row(1), Floats({2, 0}));
  }
}

TEST(MoeUnpermute, AddsWeightedRows) {
  for (const char* backend : kBackends) {
    RowsCase one = by_hand(true);
    for (std::int64_t r = 0; r < 4; ++r) one.grouped.set_row(r, {1, static_cast<float>(r), 8});
    run(plan_moe_unpermute_forward(one.shape.unpermute(), {backend}), one.unpermute());
    EXPECT_EQ(one.dx.row(0), Floats({0.5f, 0.5f, 4}));
    EXPECT_EQ(one.dx.row(1), Floats({3, 8, 24}));
    run(plan_moe_unpermute_backward(one.shape.unpermute(), {backend}), one.unpermute_backward());
    EXPECT_EQ(one.dgrouped.row(0), Floats({-4, -5, -6}));
    EXPECT_EQ(one.dgrouped.row(1), Floats({0.5f, 1, 1.5f}));
    EXPECT_EQ(one.dgrouped.row(2), Floats({16, 20, 24}));
    EXPECT_EQ(one.dgrouped.row(3), Floats({0, 0, 0}));
    EXPECT_EQ(one.dweights.row(0), Floats({1 + 2 + 24, 0}));
    EXPECT_EQ(one.dweights.row(1), Floats({4 + 10 + 48, 4 + 48}));
  }
}

// With a row for every slot and weights that add up to 1, a token comes back as it was.
TEST(MoeUnpermute, BringsPermutedTokensBack) {
  for (const Dtype dtype : kDtypes) {
    for (const bool weights : {true, false}) {
      const std::int64_t top_k = weights ? 4 : 1;
      RowsCase one({50, top_k, 50 * top_k + 3, 37, dtype, weights});
      std::int32_t row = 0;
      for (std::int64_t k = top_k - 1; k >= 0; --k) {
        for (std::int64_t t = 0; t < 50; ++t) {
          one.row_of.integer(t, k) = row;
          one.source[static_cast<std::size_t>(row++)] = static_cast<std::int32_t>(t * top_k + k);
          one.weights.set(t, k, 0.25f);
        }
      }
      run(plan_moe_permute_forward(one.shape.permute()), one.permute());
      run(plan_moe_unpermute_forward(one.shape.unpermute()), one.unpermute());
      for (std::int64_t t = 0; t < 50; ++t) EXPECT_EQ(one.dx.row(t), one.x.row(t));
    }
  }
}

void fill_integers(Gapped& matrix, std::uint64_t seed) {
  Random random(seed);
  for (std::int64_t r = 0; r < matrix.view().rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.view().cols(); ++c) {
      matrix.set(r, c, static_cast<float>(random() % 9) - 4);
    }
  }
}

double inner_product(const Gapped& a, const Gapped& b) {
  double sum = 0;
  for (std::int64_t r = 0; r < a.view().rows(); ++r) {
    for (std::int64_t c = 0; c < a.view().cols(); ++c)
      sum += double{a.at(r, c)} * double{b.at(r, c)};
  }
  return sum;
}

// <permute(x), g> = <x, permute_backward(g)>, and the same for unpermute in both its inputs.
TEST(MoePermute, BackwardIsTheTransposeOfForward) {
  for (const Dtype dtype : kDtypes) {
    for (const char* backend : kBackends) {
      RowsCase one({23, 3, 80, 19, dtype, true});
      RowsCase gradient({23, 3, 80, 19, dtype, true});
      fill_integers(one.x, 1);
      fill_integers(one.weights, 2);
      fill_integers(gradient.grouped, 3);
      run(plan_moe_permute_forward(one.shape.permute(), {backend}), one.permute());
      run(plan_moe_permute_backward(one.shape.permute(), {backend}), gradient.permute_backward());
      EXPECT_EQ(inner_product(one.grouped, gradient.grouped), inner_product(one.x, gradient.dx));

      RowsCase back({23, 3, 80, 19, dtype, true});
      fill_integers(back.grouped, 4);
      fill_integers(back.weights, 2);
      fill_integers(back.x, 5);
      run(plan_moe_unpermute_forward(back.shape.unpermute(), {backend}), back.unpermute());
      run(plan_moe_unpermute_backward(back.shape.unpermute(), {backend}),
          back.unpermute_backward());
      const double loss = inner_product(back.x, back.dx);
      EXPECT_EQ(loss, inner_product(back.weights, back.dweights));
      EXPECT_EQ(loss, inner_product(back.grouped, back.dgrouped));
    }
  }
}

TEST(MoePermute, NoTokensAndNoRowsAreZero) {
  for (const char* backend : kBackends) {
    const RowsCase none({0, 2, 3, 5, Dtype::f32, true});
    run(plan_moe_permute_forward(none.shape.permute(), {backend}), none.permute());
    run(plan_moe_permute_backward(none.shape.permute(), {backend}), none.permute_backward());
    run(plan_moe_unpermute_backward(none.shape.unpermute(), {backend}), none.unpermute_backward());
    EXPECT_EQ(none.grouped.row(2), Floats(5, 0));
    EXPECT_EQ(none.dgrouped.row(2), Floats(5, 0));
    RowsCase absent({4, 2, 3, 5, Dtype::f32, true});
    for (std::int64_t t = 0; t < 4; ++t)
      absent.row_of.integer(t, 0) = absent.row_of.integer(t, 1) = -1;
    absent.source.assign(3, -1);
    run(plan_moe_permute_forward(absent.shape.permute(), {backend}), absent.permute());
    EXPECT_EQ(absent.grouped.row(0), Floats(5, 0));
    run(plan_moe_unpermute_forward(absent.shape.unpermute(), {backend}), absent.unpermute());
    EXPECT_EQ(absent.dx.row(3), Floats(5, 0));
  }
}

TEST(MoePermute, SaysWhatItIs) {
  const RowsShape shape{512, 8, 4096, 2048};
  EXPECT_EQ(describe(shape.permute()),
            "moe-permute --shape 512x8x2048 --rows 4096 --dtype bf16 --device cpu");
  const RowsShape other{512, 8, 5000, 2048, Dtype::f32, true, GroupTail::untouched};
  EXPECT_EQ(describe(other.unpermute()),
            "moe-unpermute --shape 512x8x2048 --rows 5000 --dtype f32 --weights --tail untouched "
            "--device cpu");
}

}  // namespace
}  // namespace octet
