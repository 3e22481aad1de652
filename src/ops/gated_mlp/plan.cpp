// Plans the casts, products and activation of the layer, and the pieces of its workspace.
#include "core/message.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/gated_mlp/launches.hpp"
#include "ops/gated_mlp/state.hpp"

namespace octet {
namespace {

// The activation, fused with the cast of its outputs unless these are plain or cast apart.
GatedActivationProblem activation_with(const GatedMlpProblem& problem,
                                       const QuantizeProblem& cast) {
  GatedActivationProblem activation = activation_problem(problem);
  if (problem.fp8 && !is_apart(problem, cast)) activation.fp8 = options_of(cast);
  return activation;
}

// x and the weights in FP8.
void plan_casts(const GatedMlpProblem& problem, Launches& launches, GatedMlpForwardState& state) {
  const Fp8LinearProblem layer = gate_up_layer(problem);
  state.quantize_x = launches.quantize(cast_of_x(layer));
  state.x_layout = out_layout(state.quantize_x->problem);
  if (problem.weights_quantized) return;
  state.quantize_w_gate_up = launches.quantize(cast_of_w(layer));
  state.w_gate_up_layout = out_layout(state.quantize_w_gate_up->problem);
  if (!problem.down) return;
  state.quantize_w_down = launches.quantize(cast_of_w(down_layer(problem)));
  state.w_down_layout = out_layout(state.quantize_w_down->problem);
}

void plan_activation(const GatedMlpProblem& problem, Launches& launches,
                     GatedMlpForwardState& state) {
  const QuantizeProblem cast = cast_of_x(down_layer(problem));
  state.activation = launches.activate(activation_with(problem, cast));
  if (is_apart(problem, cast)) state.quantize_h = launches.quantize(cast);
  if (problem.fp8 && problem.down) state.h_layout = out_layout(cast);
}

void plan_activation(const GatedMlpProblem& problem, Launches& launches,
                     GatedMlpBackwardState& state) {
  const QuantizeProblem cast = cast_of_dy(gate_up_layer(problem));
  state.activation = launches.activate_backward(activation_with(problem, cast));
  if (is_apart(problem, cast)) state.quantize_d_gate_up = launches.quantize(cast);
  if (!problem.fp8 || state.quantize_d_gate_up) {
    state.d_gate_up_bytes = dense_bytes(problem.dtype, problem.m, 2 * problem.f);
  }
  if (!problem.fp8) return;
  state.d_gate_up_layout = out_layout(cast);
  state.d_gate_up_t_layout = transposed_layout(cast);
}

// dh and the weight gradient of down.
void plan_down(const GatedMlpProblem& problem, Launches& launches, GatedMlpBackwardState& state) {
  const Fp8LinearProblem layer = down_layer(problem);
  if (problem.fp8) {
    state.quantize_dy = launches.quantize(cast_of_dy(layer));
    state.dy_layout = out_layout(state.quantize_dy->problem);
    state.dy_t_layout = transposed_layout(state.quantize_dy->problem);
  }
  state.dh = launches.multiply(products(problem, layer).dx);
  state.dh_bytes = dense_bytes(problem.dtype, problem.m, problem.f);
  if (problem.need_dw) state.dw_down = launches.multiply(products(problem, layer).dw);
}

std::size_t workspace_bytes(std::initializer_list<std::size_t> pieces) {
  std::size_t sum = 0;
  for (const std::size_t bytes : pieces) sum += aligned_bytes(bytes);
  return sum;
}

}  // namespace

GatedMlpForwardPlan plan_gated_mlp_forward(const GatedMlpProblem& problem,
                                           const Fp8LinearOptions& options) {
  auto state = std::make_shared<GatedMlpForwardState>();
  state->saved = gated_mlp_saved_layout(problem);  // which checks the problem
  Launches launches(options);
  if (problem.fp8) plan_casts(problem, launches, *state);
  state->gate_up = launches.multiply(products(problem, gate_up_layer(problem)).y);
  if (state->saved.gate_up_bytes == 0) {
    state->gate_up_bytes = dense_bytes(problem.dtype, problem.m, 2 * problem.f);
  }
  plan_activation(problem, launches, *state);
  if (problem.down) state->down = launches.multiply(products(problem, down_layer(problem)).y);
  if (state->quantize_h || (!problem.fp8 && problem.down && state->saved.h_bytes == 0)) {
    state->h_bytes = dense_bytes(problem.dtype, problem.m, problem.f);
  }
  state->cost = launches.cost();

  GatedMlpForwardPlan plan;
  plan.problem = {problem};
  plan.implementation = launches.implementations();
  plan.configuration = state->gate_up.configuration;
  plan.why = state->gate_up.why;
  plan.workspace_bytes = workspace_bytes(
      {state->x_layout.bytes, state->w_gate_up_layout.bytes, state->gate_up_bytes, state->h_bytes,
       state->h_layout.bytes, state->w_down_layout.bytes, launches.scratch_bytes()});
  plan.state = state;
  return plan;
}

GatedMlpBackwardPlan plan_gated_mlp_backward(const GatedMlpProblem& problem,
                                             const Fp8LinearOptions& options) {
  check(problem);
  if (!has_backward(problem)) {
    refuse_argument("gated_mlp: backward needs training = true and need_dx or need_dw");
  }
  auto state = std::make_shared<GatedMlpBackwardState>();
  Launches launches(options);
  if (problem.down) plan_down(problem, launches, *state);
  plan_activation(problem, launches, *state);
  const LinearProducts gate_up = products(problem, gate_up_layer(problem));
  if (problem.need_dx) state->dx = launches.multiply(gate_up.dx);
  if (problem.need_dw) state->dw_gate_up = launches.multiply(gate_up.dw);
  state->cost = launches.cost();

  GatedMlpBackwardPlan plan;
  plan.problem = {problem};
  plan.implementation = launches.implementations();
  const GemmPlan& product = problem.need_dw ? *state->dw_gate_up : *state->dx;
  plan.configuration = product.configuration;
  plan.why = product.why;
  plan.workspace_bytes = workspace_bytes(
      {state->dy_layout.bytes, state->dy_t_layout.bytes, state->dh_bytes, state->d_gate_up_bytes,
       state->d_gate_up_layout.bytes, state->d_gate_up_t_layout.bytes, launches.scratch_bytes()});
  plan.state = state;
  return plan;
}

}  // namespace octet
