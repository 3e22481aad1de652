// The parts of moe_mlp: its glue, casts, products and activation, and the state of its plans.
#pragma once

#include "ops/fp8_grouped_linear/parts.hpp"

#include <octet/ops/moe_mlp.hpp>
#include <octet/ops/moe_permute.hpp>
#include <octet/ops/moe_unpermute.hpp>

namespace octet {

// The experts that are here, and the rows of the buffers.
inline std::int64_t groups_of(const MoeMlpProblem& problem) {
  return problem.local_experts > 0 ? problem.local_experts : problem.experts;
}
inline std::int64_t buffer_rows(const MoeMlpProblem& problem) {
  return problem.rows > 0 ? problem.rows : problem.tokens * problem.top_k;
}

// The two linear layers. down always has a data gradient: the activation's backward reads it.
Fp8GroupedLinearProblem gate_up_layer(const MoeMlpProblem& problem);
Fp8GroupedLinearProblem down_layer(const MoeMlpProblem& problem);

MoeRouteProblem route_of(const MoeMlpProblem& problem);  // of a problem with routing
MoeMapsProblem maps_of(const MoeMlpProblem& problem);
// The weight of every row: a permute of slots, each of one number.
MoePermuteProblem weights_to_rows(const MoeMlpProblem& problem);
// Rows back to tokens: y, and dx.
MoeUnpermuteProblem rows_to_tokens(const MoeMlpProblem& problem);
// x and dy, gathered from their tokens.
QuantizeProblem gather_x(const MoeMlpProblem& problem);
QuantizeProblem gather_dy(const MoeMlpProblem& problem);
// Both write FP8; the copies are those of a cast of h or of d_gate_up.
GatedActivationProblem activation_forward(const MoeMlpProblem& problem);
GatedActivationProblem activation_backward(const MoeMlpProblem& problem);

struct MoeMlpForwardState {
  std::optional<MoeRouteForwardPlan> route;
  MoeMapsPlan maps;
  MoePermuteForwardPlan row_weight;
  QuantizePlan quantize_x;
  std::optional<QuantizePlan> quantize_w_gate_up;
  GroupedGemmPlan gate_up;
  GatedActivationForwardPlan activation;
  std::optional<QuantizePlan> quantize_w_down;
  GroupedGemmPlan down;
  MoeUnpermuteForwardPlan unpermute;

  // In the workspace.
  std::size_t saved_bytes = 0;    // of everything that training would save
  std::size_t weights_bytes = 0;  // [tokens, top_k], f32; with routing
  QuantizedLayout x;              // [rows, K]
  QuantizedBatchLayout w_gate_up;
  QuantizedLayout h;  // [rows, F]
  QuantizedBatchLayout w_down;
  std::size_t rows_bytes = 0;  // [rows, K] of dtype: what is added up to y
};

struct MoeMlpBackwardState {
  QuantizePlan quantize_dy;
  GroupedGemmPlan dh;
  std::optional<GroupedGemmPlan> dw_down;
  GatedActivationBackwardPlan activation;
  std::optional<GroupedGemmPlan> dx;
  std::optional<GroupedGemmPlan> dw_gate_up;
  std::optional<MoeUnpermuteForwardPlan> unpermute;
  MoePermuteBackwardPlan dweights;
  std::optional<MoeRouteBackwardPlan> route;

  // In the workspace.
  GroupedCopies dy;
  std::size_t dh_bytes = 0;  // [rows, F] of dtype
  GroupedCopies d_gate_up;
  std::size_t d_row_weight_bytes = 0;  // [rows], f32
  std::size_t dweights_bytes = 0;      // [tokens, top_k], f32; with routing
  std::size_t rows_bytes = 0;          // [rows, K] of dtype: what is added up to dx
};

void check(const MoeMlpProblem& problem);
// Checks the tensors and the workspace of a call. Returns the arguments without the views that the
// problem ignores: the parts of the layer are not checked again.
MoeMlpForwardArgs check_call(const MoeMlpForwardPlan& plan, MoeMlpForwardArgs args,
                             const Workspace& workspace);
MoeMlpBackwardArgs check_call(const MoeMlpBackwardPlan& plan, MoeMlpBackwardArgs args,
                              const Workspace& workspace);

}  // namespace octet
