// The tensors of both operators, with random contents and maps that a seed repeats.
#pragma once

#include "ops/moe_permute/problem.hpp"
#include "ops/moe_unpermute/problem.hpp"
#include "support/gapped.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace octet {

// The fields that both problems have.
struct RowsShape {
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::bf16;
  bool weights = false;
  GroupTail tail = GroupTail::zero;

  MoePermuteProblem permute() const { return {tokens, top_k, rows, cols, dtype, weights, tail}; }
  MoeUnpermuteProblem unpermute() const {
    return {tokens, top_k, rows, cols, dtype, weights, tail};
  }
};

struct RowsCase {
  RowsShape shape;
  Gapped row_of, weights, dweights, x, grouped, dgrouped, dx;
  std::vector<std::int32_t> source;
  std::vector<float> row_weight;

  // `gap`: elements behind every row of x, grouped and their gradients.
  explicit RowsCase(const RowsShape& given, std::uint64_t seed = 1, std::int64_t gap = kGap)
      : shape(given),
        row_of(Dtype::i32, given.tokens, given.top_k),
        weights(Dtype::f32, given.tokens, given.top_k),
        dweights(Dtype::f32, given.tokens, given.top_k),
        x(given.dtype, given.tokens, given.cols, gap),
        grouped(given.dtype, given.rows, given.cols, gap),
        dgrouped(given.dtype, given.rows, given.cols, gap),
        dx(given.dtype, given.tokens, given.cols, gap),
        source(static_cast<std::size_t>(given.rows), -1),
        row_weight(static_cast<std::size_t>(given.rows), 7) {
    x.fill(seed);
    weights.fill(seed + 1);
    draw_maps(seed);
  }

  // Every seventh slot has no row, nor has one that finds no room; the others are shuffled.
  void draw_maps(std::uint64_t seed) {
    Random random(seed);
    std::vector<std::int32_t> slots(static_cast<std::size_t>(shape.tokens * shape.top_k));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random);
    std::int32_t row = 0;
    for (const std::int32_t slot : slots) {
      const bool has_row = slot % 7 != 3 && row < shape.rows;
      row_of.integer(slot / shape.top_k, slot % shape.top_k) = has_row ? row : -1;
      if (has_row) source[static_cast<std::size_t>(row++)] = slot;
    }
  }

  TensorView source_view() const { return make_view(source.data(), Dtype::i32, {shape.rows}); }
  TensorView row_weight_view() const {
    return make_view(row_weight.data(), Dtype::f32, {shape.rows});
  }

  MoePermuteForwardArgs permute() const {
    return {x.view(),      weights.view(), row_of.view(),
            source_view(), grouped.view(), row_weight_view()};
  }
  // d_row_weight is row_weight.
  MoePermuteBackwardArgs permute_backward() const {
    return {grouped.view(), row_weight_view(), row_of.view(), dx.view(), dweights.view()};
  }
  MoeUnpermuteForwardArgs unpermute() const {
    return {grouped.view(), weights.view(), row_of.view(), dx.view()};
  }
  // dout is x.
  MoeUnpermuteBackwardArgs unpermute_backward() const {
    return {x.view(),      grouped.view(),  weights.view(), row_of.view(),
            source_view(), dgrouped.view(), dweights.view()};
  }
};

// All four passes, each on what the one before it wrote.
template <class Run>
void run_all(RowsCase& one, const Run& run_one) {
  run_one(one.shape.permute(), one.permute());
  run_one(one.shape.permute(), one.permute_backward());
  run_one(one.shape.unpermute(), one.unpermute());
  run_one(one.shape.unpermute(), one.unpermute_backward());
}

inline auto plan_of(const MoePermuteProblem& p, const MoePermuteForwardArgs&,
                    const PlanOptions& o) {
  return plan_moe_permute_forward(p, o);
}
inline auto plan_of(const MoePermuteProblem& p, const MoePermuteBackwardArgs&,
                    const PlanOptions& o) {
  return plan_moe_permute_backward(p, o);
}
inline auto plan_of(const MoeUnpermuteProblem& p, const MoeUnpermuteForwardArgs&,
                    const PlanOptions& o) {
  return plan_moe_unpermute_forward(p, o);
}
inline auto plan_of(const MoeUnpermuteProblem& p, const MoeUnpermuteBackwardArgs&,
                    const PlanOptions& o) {
  return plan_moe_unpermute_backward(p, o);
}

inline void run_with(RowsCase& one, const PlanOptions& options) {
  run_all(one, [&](const auto& problem, const auto& args) {
    run(plan_of(problem, args, options), args);
  });
}

inline void expect_equal(const RowsCase& given, const RowsCase& wanted, const std::string& who) {
  SCOPED_TRACE(describe(given.shape.unpermute()) + " " + who);
  EXPECT_EQ(given.grouped.bytes(), wanted.grouped.bytes());
  EXPECT_EQ(given.dx.bytes(), wanted.dx.bytes());
  EXPECT_EQ(given.dgrouped.bytes(), wanted.dgrouped.bytes());
  EXPECT_EQ(given.dweights.bytes(), wanted.dweights.bytes());
  EXPECT_EQ(std::memcmp(given.row_weight.data(), wanted.row_weight.data(),
                        wanted.row_weight.size() * sizeof(float)),
            0);
}

}  // namespace octet
