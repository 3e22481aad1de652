// The state of gated_mlp's plans: casts, products and activation in the order they run, and the
// tensors they pass on through the workspace. An empty part is not run; a layout or size of 0 bytes
// is not in the workspace.
#pragma once

#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <octet/ops/gated_mlp.hpp>

namespace octet {

struct GatedMlpForwardState {
  std::optional<QuantizePlan> quantize_x;
  std::optional<QuantizePlan> quantize_w_gate_up;
  GemmPlan gate_up;
  GatedActivationForwardPlan activation;
  std::optional<QuantizePlan> quantize_h;  // only if it is_apart()
  std::optional<QuantizePlan> quantize_w_down;
  std::optional<GemmPlan> down;

  QuantizedLayout x_layout;
  QuantizedLayout w_gate_up_layout;
  std::size_t gate_up_bytes = 0;  // [M, 2F]
  std::size_t h_bytes = 0;        // [M, F] before a cast or the plain product
  QuantizedLayout h_layout;
  QuantizedLayout w_down_layout;
  GatedMlpSavedLayout saved;
  GatedMlpCost cost;
};

struct GatedMlpBackwardState {
  std::optional<QuantizePlan> quantize_dy;
  std::optional<GemmPlan> dh;
  std::optional<GemmPlan> dw_down;
  GatedActivationBackwardPlan activation;
  std::optional<QuantizePlan> quantize_d_gate_up;  // only if it is_apart()
  std::optional<GemmPlan> dx;
  std::optional<GemmPlan> dw_gate_up;

  QuantizedLayout dy_layout;
  QuantizedLayout dy_t_layout;
  std::size_t dh_bytes = 0;         // [M, F]
  std::size_t d_gate_up_bytes = 0;  // [M, 2F] before a cast or plain products
  QuantizedLayout d_gate_up_layout;
  QuantizedLayout d_gate_up_t_layout;
  GatedMlpCost cost;
};

// The two linear layers. down always has a data gradient: the activation's backward reads it.
Fp8LinearProblem gate_up_layer(const GatedMlpProblem& problem);
Fp8LinearProblem down_layer(const GatedMlpProblem& problem);
inline LinearProducts products(const GatedMlpProblem& problem, const Fp8LinearProblem& layer) {
  return problem.fp8 ? fp8_products(layer) : plain_products(layer);
}

// The activation between the two, without casts.
inline GatedActivationProblem activation_problem(const GatedMlpProblem& problem) {
  GatedActivationProblem result;
  result.rows = problem.m;
  result.cols = problem.f;
  result.dtype = problem.dtype;
  result.activation = problem.activation;
  result.device = problem.device;
  return result;
}

inline bool has_backward(const GatedMlpProblem& problem) {
  return problem.training && (problem.need_dx || problem.need_dw);
}
// Whether the cast of h or of its gradients follows the activation. In one pass that writes scales of
// blocks of 128 and, where no transposed copy is wanted, of rows.
inline bool is_apart(const GatedMlpProblem& problem, const QuantizeProblem& cast) {
  if (problem.unfused) return true;
  if (problem.granularity == Granularity::rowwise) return cast.transposed_block.has_value();
  return problem.granularity != Granularity::blockwise;
}
inline std::size_t dense_bytes(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols * size_bytes(dtype));
}
void check(const GatedMlpProblem& problem);
// Checks the tensors and the workspace of a call. Returns forward's arguments without the outputs
// that the problem does not write: the parts of the layer are not checked again.
GatedMlpForwardArgs check_call(const GatedMlpForwardPlan& plan, GatedMlpForwardArgs args,
                               const Workspace& workspace);
void check_call(const GatedMlpBackwardPlan& plan, const GatedMlpBackwardArgs& args,
                const Workspace& workspace);

}  // namespace octet
