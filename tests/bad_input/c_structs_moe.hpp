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

}  // namespace octet::bad_input
