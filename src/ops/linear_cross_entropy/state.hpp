// The state of linear_cross_entropy's plans: the parts in the order they run, how the tokens are cut,
// and the tensors that pass through the workspace. An empty part is not run; a layout or size of 0
// bytes is not in the workspace.
#pragma once

#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/linear_cross_entropy/rows.hpp"

#include <algorithm>
#include <optional>

namespace octet {

// Tokens [first, first + rows).
struct TokenRange {
  std::int64_t first;
  std::int64_t rows;
};

// A part that runs on pieces of `rows` tokens, and on a last one that may be shorter.
template <class PartPlan>
struct PiecePlans {
  std::int64_t rows = 0;
  PartPlan full;
  PartPlan last;

  const PartPlan& of(const TokenRange& piece) const { return piece.rows == rows ? full : last; }
};

struct LinearCrossEntropyState {
  bool gradient = false;
  std::int64_t chunk_rows = 0;  // tokens whose logits exist at a time
  std::int64_t wgrad_rows = 0;  // tokens of one weight gradient product: whole chunks, or all

  LossRowsPlan loss_rows;
  std::optional<QuantizePlan> quantize_x;
  std::optional<QuantizePlan> quantize_w;
  PiecePlans<GemmPlan> logits;
  std::optional<PiecePlans<QuantizePlan>> quantize_dlogits;
  std::optional<PiecePlans<GemmPlan>> dx;
  std::optional<GemmPlan> dw;                   // of the first wgrad_rows tokens
  std::optional<PiecePlans<GemmPlan>> more_dw;  // of the others, added

  QuantizedLayout x_layout;    // [M, K]
  QuantizedLayout x_t_layout;  // [K, M]
  QuantizedLayout w_layout;    // [V, K]
  QuantizedLayout w_t_layout;  // [K, V]
  std::int64_t logits_pitch = 0;
  std::size_t logits_bytes = 0;     // [chunk_rows, V]
  std::size_t dlogits_bytes = 0;    // FP8 [chunk_rows, V]
  std::size_t dlogits_t_bytes = 0;  // FP8 [V, wgrad_rows]
  std::size_t losses_bytes = 0;     // [M] f32, of a reduction
  std::size_t totals_bytes = 0;     // LossTotals
  std::size_t dw_sum_bytes = 0;     // [V, K] f32
};

// The head as a linear layer, with `rows` tokens.
Fp8LinearProblem head_layer(const LinearCrossEntropyProblem& problem, std::int64_t rows,
                            bool gradient);
LossRowsProblem loss_rows_problem(const LinearCrossEntropyProblem& problem);

// dlogits of some tokens, as they lie in the workspace.
inline QuantizedLayout dlogits_layout(const LinearCrossEntropyProblem& problem, std::int64_t rows) {
  return {rows, problem.v, problem.grad_format, kBlock1x128};
}
inline QuantizedLayout dlogits_t_layout(const LinearCrossEntropyProblem& problem,
                                        std::int64_t rows) {
  return {problem.v, rows, problem.grad_format, kBlock1x128};
}

inline bool needs_gradient(const LinearCrossEntropyProblem& problem) {
  return problem.training && (problem.need_dx || problem.need_dw);
}
inline bool forward_has_gradient(const LinearCrossEntropyProblem& problem) {
  return needs_gradient(problem) && problem.reduction != LossReduction::none;
}

void check(const LinearCrossEntropyProblem& problem);
// Checks the tensors and the workspace of a call. Returns the arguments without the views that the
// problem ignores.
LinearCrossEntropyForwardArgs check_call(const LinearCrossEntropyForwardPlan& plan,
                                         LinearCrossEntropyForwardArgs args,
                                         const Workspace& workspace);
LinearCrossEntropyBackwardArgs check_call(const LinearCrossEntropyBackwardPlan& plan,
                                          LinearCrossEntropyBackwardArgs args,
                                          const Workspace& workspace);

}  // namespace octet
