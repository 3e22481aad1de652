// adamw.
#pragma once

#include "fuzz/c_api_elements.hpp"

namespace octet::fuzz {

inline void fuzz_adamw(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_adamw_problem);
  octet_adamw_problem& p = problem.known;
  p.count = input.spoilt() ? 0 : input.extent();
  p.dtype = input.float_dtype();
  p.grad_dtype = input.float_dtype();
  p.moments_dtype = input.coin() ? OCTET_F32 : OCTET_BF16;
  p.master = input.flag();
  p.grad_scale = input.flag();
  if (input.coin()) {
    p.rows = input.extent();
    p.cols = input.extent();
    const bool is_matrix = p.rows >= 0 && p.cols >= 0 && !is_long({p.rows, p.cols});
    if (is_matrix && !input.spoilt()) p.count = p.rows * p.cols;
    p.fp8 = fp8_output(input);
  }
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_adamw_plan);
  if (plan == nullptr || is_long({p.count})) return;
  auto args = with_tail<octet_adamw_args>();
  octet_adamw_args& a = args.known;
  a.w = input.tensor(p.dtype, {p.count});
  a.g = input.tensor(p.grad_dtype, {p.count});
  a.m = input.tensor(p.moments_dtype, {p.count});
  a.v = input.tensor(p.moments_dtype, {p.count});
  if (p.master != 0) a.master = input.tensor(OCTET_F32, {p.count});
  if (p.grad_scale != 0) a.grad_scale = input.tensor(OCTET_F32, {1});
  a.fp8 = fp8_copies(input, p.fp8, p.rows, p.cols);
  a.lr = double{input.real()};
  a.beta1 = input.spoilt() ? double{input.real()} : 0.9;
  a.beta2 = input.spoilt() ? double{input.real()} : 0.999;
  a.eps = double{input.real()};
  a.weight_decay = double{input.real()};
  a.step = input.extent();
  memory.run(input, plan.get(), octet_run_adamw, args);
}

}  // namespace octet::fuzz
