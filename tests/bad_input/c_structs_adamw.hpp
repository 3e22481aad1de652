// The C structs of adamw.
#pragma once

#include "bad_input/c_structs_elements.hpp"

namespace octet::bad_input {

inline octet_adamw_problem to_c(const AdamWProblem& problem) {
  octet_adamw_problem c;
  octet_init_adamw_problem(&c);
  c.count = problem.count;
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.grad_dtype = static_cast<octet_dtype>(problem.grad_dtype);
  c.moments_dtype = static_cast<octet_dtype>(problem.moments_dtype);
  c.master = problem.master;
  c.grad_scale = problem.grad_scale;
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.fp8 = to_c(problem.fp8);
  c.device = to_c(problem.device);
  return c;
}

inline octet_adamw_args to_c(const AdamWArgs& args) {
  octet_adamw_args c;
  OCTET_INIT(&c);
  c.w = to_c(args.w);
  c.g = to_c(args.g);
  c.m = to_c(args.m);
  c.v = to_c(args.v);
  c.master = to_c(args.master);
  c.grad_scale = to_c(args.grad_scale);
  c.lr = args.lr;
  c.beta1 = args.beta1;
  c.beta2 = args.beta2;
  c.eps = args.eps;
  c.weight_decay = args.weight_decay;
  c.step = args.step;
  c.fp8 = to_c(args.fp8);
  return c;
}

}  // namespace octet::bad_input
