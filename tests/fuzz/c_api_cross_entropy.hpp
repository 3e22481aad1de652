// linear_cross_entropy. Targets are words of the vocabulary unless the input is spoilt.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline octet_linear_cross_entropy_problem head_problem(Input& input) {
  octet_linear_cross_entropy_problem p;
  octet_init_linear_cross_entropy_problem(&p);
  p.m = input.few();
  p.v = input.few();
  p.k = input.few();
  p.dtype = input.float_dtype();
  p.target_dtype = input.number(OCTET_I32, OCTET_I64);
  p.reduction = input.number(OCTET_LOSS_NONE, OCTET_LOSS_MEAN);
  p.fp8 = input.flag();
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = p.fp8 != 0 || input.spoilt() ? input.flag() : 0;
  read_training(input, &p);
  if (!input.spoilt() && p.accumulate_dw != 0) p.dw_dtype = OCTET_F32;
  p.max_chunk_rows = input.spoilt() ? input.few() : 0;
  if (input.coin() && p.m < 1000) {  // several chunks
    p.m += 128;
    p.max_chunk_rows = 128;
  }
  p.device = input.device();
  return p;
}

template <class Args>
void fill_head(Input& input, const octet_linear_cross_entropy_problem& p, Args* a) {
  a->x = input.tensor(p.dtype, p.m, p.k);
  if (p.weights_quantized != 0) {
    a->weights.w = input.quantized(p.format, p.v, p.k, octet_block_of(128, 128));
    a->weights.w_t = input.quantized(p.format, p.k, p.v, octet_block_of(128, 128));
  } else {
    a->w = input.tensor(p.dtype, p.v, p.k);
  }
  a->targets = input.tensor(p.target_dtype, {p.m});
  if (a->targets.data != nullptr && !input.spoilt()) {
    std::memset(a->targets.data, 0, static_cast<std::size_t>(reach_bytes(a->targets, false)));
  }
  a->loss_grad = input.tensor(OCTET_F32, {p.reduction == OCTET_LOSS_NONE ? p.m : 1});
  if (input.coin()) a->lse = input.tensor(OCTET_F32, {p.m});
  a->dx = input.tensor(p.dtype, p.m, p.k);
  a->dw = input.tensor(p.dw_dtype, p.v, p.k);
}

inline void fuzz_head_forward(Input& input, const octet_plan* plan, Memory& memory,
                              const octet_linear_cross_entropy_problem& p) {
  octet_linear_cross_entropy_forward_args a;
  OCTET_INIT(&a);
  fill_head(input, p, &a);
  a.loss = input.tensor(OCTET_F32, {p.reduction == OCTET_LOSS_NONE ? p.m : 1});
  memory.run(input, plan, octet_run_linear_cross_entropy_forward, a);
}

inline void fuzz_head_backward(Input& input, const octet_plan* plan, Memory& memory,
                               const octet_linear_cross_entropy_problem& p) {
  octet_linear_cross_entropy_backward_args a;
  OCTET_INIT(&a);
  fill_head(input, p, &a);
  memory.run(input, plan, octet_run_linear_cross_entropy_backward, a);
}

inline void fuzz_linear_cross_entropy(Input& input, Memory& memory) {
  auto problem = with_tail<octet_linear_cross_entropy_problem>();
  octet_linear_cross_entropy_problem& p = problem.known;
  p = head_problem(input);
  input.grow(&problem);
  const PlannedPass pass = plan_pass(input, p, &octet_fp8_linear_options::gemm_backend,
                                     octet_make_linear_cross_entropy_forward_plan,
                                     octet_make_linear_cross_entropy_backward_plan);
  if (pass.plan == nullptr || is_long({p.m, p.v, p.k})) return;
  pass.run(input, fuzz_head_forward, fuzz_head_backward, memory, p);
}

}  // namespace octet::fuzz
