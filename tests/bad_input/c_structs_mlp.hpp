// The C structs of gated_mlp.
#pragma once

#include "bad_input/c_structs_elements.hpp"

namespace octet::bad_input {

inline octet_gated_mlp_problem to_c(const GatedMlpProblem& problem) {
  octet_gated_mlp_problem c;
  octet_init_gated_mlp_problem(&c);
  c.m = problem.m;
  c.f = problem.f;
  c.k = problem.k;
  c.activation = static_cast<octet_gate_activation>(problem.activation);
  c.down = problem.down;
  c.fp8 = problem.fp8;
  set_layer_fields(problem, c);
  set_granularity(problem, c);
  c.unfused = problem.unfused;
  return c;
}

inline octet_gated_mlp_saved to_c(const GatedMlpSaved& saved) {
  return {to_c(saved.x), to_c(saved.gate_up), to_c(saved.x_t),      to_c(saved.w_gate_up_t),
          to_c(saved.h), to_c(saved.h_t),     to_c(saved.w_down_t), {}};
}
inline octet_fp8_linear_weights to_c(const Fp8LinearWeights& weights) {
  return {to_c(weights.w), to_c(weights.w_t), {}};
}

inline octet_gated_mlp_forward_args to_c(const GatedMlpForwardArgs& args) {
  octet_gated_mlp_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.w_gate_up = to_c(args.w_gate_up);
  c.w_down = to_c(args.w_down);
  c.weights = {to_c(args.weights.gate_up), to_c(args.weights.down), {}};
  c.h = to_c(args.h);
  c.h_fp8 = to_c(args.h_fp8);
  c.y = to_c(args.y);
  c.saved = to_c(args.saved);
  return c;
}
inline octet_gated_mlp_backward_args to_c(const GatedMlpBackwardArgs& args) {
  octet_gated_mlp_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.dh = to_c(args.dh);
  c.w_gate_up = to_c(args.w_gate_up);
  c.w_down = to_c(args.w_down);
  c.saved = to_c(args.saved);
  c.dx = to_c(args.dx);
  c.dw_gate_up = to_c(args.dw_gate_up);
  c.dw_down = to_c(args.dw_down);
  return c;
}

}  // namespace octet::bad_input
