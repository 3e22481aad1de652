// The C structs of the glue of a mixture of experts.
#pragma once

#include "bad_input/c_structs.hpp"

namespace octet::bad_input {

inline octet_moe_route_problem to_c(const MoeRouteProblem& problem) {
  octet_moe_route_problem c;
  octet_init_moe_route_problem(&c);
  c.tokens = problem.tokens;
  c.experts = problem.experts;
  c.top_k = problem.top_k;
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.score = static_cast<octet_route_score>(problem.score);
  c.bias = problem.bias ? 1 : 0;
  c.expert_groups = problem.expert_groups;
  c.top_groups = problem.top_groups;
  c.group_score = static_cast<octet_expert_group_score>(problem.group_score);
  c.normalize = problem.normalize ? 1 : 0;
  c.scale = problem.scale;
  c.device = to_c(problem.device);
  return c;
}
inline octet_moe_route_forward_args to_c(const MoeRouteForwardArgs& args) {
  octet_moe_route_forward_args c;
  OCTET_INIT(&c);
  c.logits = to_c(args.logits);
  c.bias = to_c(args.bias);
  c.indices = to_c(args.indices);
  c.weights = to_c(args.weights);
  c.scores = to_c(args.scores);
  return c;
}
inline octet_moe_route_backward_args to_c(const MoeRouteBackwardArgs& args) {
  octet_moe_route_backward_args c;
  OCTET_INIT(&c);
  c.scores = to_c(args.scores);
  c.indices = to_c(args.indices);
  c.dweights = to_c(args.dweights);
  c.dscores = to_c(args.dscores);
  c.dlogits = to_c(args.dlogits);
  return c;
}

inline octet_moe_maps_problem to_c(const MoeMapsProblem& problem) {
  octet_moe_maps_problem c;
  octet_init_moe_maps_problem(&c);
  c.tokens = problem.tokens;
  c.top_k = problem.top_k;
  c.experts = problem.experts;
  c.first_expert = problem.first_expert;
  c.groups = problem.groups;
  c.rows = problem.rows;
  c.capacity = problem.capacity;
  c.indices_dtype = static_cast<octet_dtype>(problem.indices_dtype);
  c.device = to_c(problem.device);
  return c;
}
inline octet_moe_maps_args to_c(const MoeMapsArgs& args) {
  octet_moe_maps_args c;
  OCTET_INIT(&c);
  c.indices = to_c(args.indices);
  c.row_of = to_c(args.row_of);
  c.source = to_c(args.source);
  c.sizes = to_c(args.sizes);
  c.table = to_c(args.table);
  c.status = to_c(args.status);
  return c;
}

template <class Problem, class CProblem>
void set_rows(const Problem& problem, CProblem* c) {
  c->tokens = problem.tokens;
  c->top_k = problem.top_k;
  c->rows = problem.rows;
  c->cols = problem.cols;
  c->dtype = static_cast<octet_dtype>(problem.dtype);
  c->weights = problem.weights ? 1 : 0;
  c->tail = static_cast<octet_group_tail>(problem.tail);
  c->device = to_c(problem.device);
}
inline octet_moe_permute_problem to_c(const MoePermuteProblem& problem) {
  octet_moe_permute_problem c;
  octet_init_moe_permute_problem(&c);
  set_rows(problem, &c);
  return c;
}
inline octet_moe_unpermute_problem to_c(const MoeUnpermuteProblem& problem) {
  octet_moe_unpermute_problem c;
  octet_init_moe_unpermute_problem(&c);
  set_rows(problem, &c);
  return c;
}
inline octet_moe_permute_forward_args to_c(const MoePermuteForwardArgs& args) {
  octet_moe_permute_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.weights = to_c(args.weights);
  c.row_of = to_c(args.row_of);
  c.source = to_c(args.source);
  c.grouped = to_c(args.grouped);
  c.row_weight = to_c(args.row_weight);
  return c;
}
inline octet_moe_permute_backward_args to_c(const MoePermuteBackwardArgs& args) {
  octet_moe_permute_backward_args c;
  OCTET_INIT(&c);
  c.dgrouped = to_c(args.dgrouped);
  c.d_row_weight = to_c(args.d_row_weight);
  c.row_of = to_c(args.row_of);
  c.dx = to_c(args.dx);
  c.dweights = to_c(args.dweights);
  return c;
}
inline octet_moe_unpermute_forward_args to_c(const MoeUnpermuteForwardArgs& args) {
  octet_moe_unpermute_forward_args c;
  OCTET_INIT(&c);
  c.grouped = to_c(args.grouped);
  c.weights = to_c(args.weights);
  c.row_of = to_c(args.row_of);
  c.out = to_c(args.out);
  return c;
}
inline octet_moe_unpermute_backward_args to_c(const MoeUnpermuteBackwardArgs& args) {
  octet_moe_unpermute_backward_args c;
  OCTET_INIT(&c);
  c.dout = to_c(args.dout);
  c.grouped = to_c(args.grouped);
  c.weights = to_c(args.weights);
  c.row_of = to_c(args.row_of);
  c.source = to_c(args.source);
  c.dgrouped = to_c(args.dgrouped);
  c.dweights = to_c(args.dweights);
  return c;
}

inline octet_moe_mlp_problem to_c(const MoeMlpProblem& problem) {
  octet_moe_mlp_problem c;
  octet_init_moe_mlp_problem(&c);
  c.tokens = problem.tokens;
  c.f = problem.f;
  c.k = problem.k;
  c.experts = problem.experts;
  c.top_k = problem.top_k;
  c.first_expert = problem.first_expert;
  c.local_experts = problem.local_experts;
  c.rows = problem.rows;
  c.capacity = problem.capacity;
  c.routing = problem.routing ? 1 : 0;
  if (problem.routing) {
    c.logits_dtype = static_cast<octet_dtype>(problem.routing->dtype);
    c.score = static_cast<octet_route_score>(problem.routing->score);
    c.bias = problem.routing->bias ? 1 : 0;
    c.expert_groups = problem.routing->expert_groups;
    c.top_groups = problem.routing->top_groups;
    c.group_score = static_cast<octet_expert_group_score>(problem.routing->group_score);
    c.normalize = problem.routing->normalize ? 1 : 0;
    c.scale = problem.routing->scale;
  }
  c.activation = static_cast<octet_gate_activation>(problem.activation);
  set_layer_fields(problem, c);
  c.expected_rows = problem.expected_rows;
  return c;
}
inline octet_moe_mlp_saved to_c(const MoeMlpSaved& saved) {
  return {to_c(saved.scores),      to_c(saved.indices),
          to_c(saved.row_of),      to_c(saved.source),
          to_c(saved.sizes),       to_c(saved.table),
          to_c(saved.status),      to_c(saved.row_weight),
          to_c(saved.gate_up),     to_c(saved.x_t),
          to_c(saved.w_gate_up_t), to_c(saved.h_t),
          to_c(saved.w_down_t),    {}};
}
inline octet_moe_mlp_forward_args to_c(const MoeMlpForwardArgs& args) {
  octet_moe_mlp_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.logits = to_c(args.logits);
  c.bias = to_c(args.bias);
  c.indices = to_c(args.indices);
  c.weights = to_c(args.weights);
  c.w_gate_up = to_c(args.w_gate_up);
  c.w_down = to_c(args.w_down);
  c.experts.gate_up = {to_c(args.experts.gate_up.w), to_c(args.experts.gate_up.w_t), {}};
  c.experts.down = {to_c(args.experts.down.w), to_c(args.experts.down.w_t), {}};
  c.y = to_c(args.y);
  c.saved = to_c(args.saved);
  return c;
}
inline octet_moe_mlp_backward_args to_c(const MoeMlpBackwardArgs& args) {
  octet_moe_mlp_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.dscores = to_c(args.dscores);
  c.saved = to_c(args.saved);
  c.dx = to_c(args.dx);
  c.dlogits = to_c(args.dlogits);
  c.dweights = to_c(args.dweights);
  c.dw_gate_up = to_c(args.dw_gate_up);
  c.dw_down = to_c(args.dw_down);
  return c;
}

}  // namespace octet::bad_input
