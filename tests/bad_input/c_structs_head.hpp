// The C structs of linear_cross_entropy.
#pragma once

#include "bad_input/c_structs_mlp.hpp"

namespace octet::bad_input {

inline octet_linear_cross_entropy_problem to_c(const LinearCrossEntropyProblem& problem) {
  octet_linear_cross_entropy_problem c;
  octet_init_linear_cross_entropy_problem(&c);
  c.m = problem.m;
  c.v = problem.v;
  c.k = problem.k;
  c.ignore_index = problem.ignore_index;
  c.target_dtype = static_cast<octet_dtype>(problem.target_dtype);
  c.reduction = static_cast<octet_loss_reduction>(problem.reduction);
  c.fp8 = problem.fp8;
  set_layer_fields(problem, c);
  c.max_chunk_rows = problem.max_chunk_rows;
  return c;
}

inline octet_linear_cross_entropy_forward_args to_c(const LinearCrossEntropyForwardArgs& args) {
  octet_linear_cross_entropy_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.w = to_c(args.w);
  c.weights = to_c(args.weights);
  c.targets = to_c(args.targets);
  c.loss_grad = to_c(args.loss_grad);
  c.loss = to_c(args.loss);
  c.lse = to_c(args.lse);
  c.dx = to_c(args.dx);
  c.dw = to_c(args.dw);
  return c;
}
inline octet_linear_cross_entropy_backward_args to_c(const LinearCrossEntropyBackwardArgs& args) {
  octet_linear_cross_entropy_backward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.w = to_c(args.w);
  c.weights = to_c(args.weights);
  c.targets = to_c(args.targets);
  c.loss_grad = to_c(args.loss_grad);
  c.lse = to_c(args.lse);
  c.dx = to_c(args.dx);
  c.dw = to_c(args.dw);
  return c;
}

}  // namespace octet::bad_input
