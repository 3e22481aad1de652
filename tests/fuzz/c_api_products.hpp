// Products: gemm and the FP8 linear layer.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline void fuzz_gemm(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_gemm_problem);
  octet_gemm_problem& p = problem.known;
  p.m = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  const bool fp8 = input.coin();
  p.a.dtype = fp8 ? input.fp8_dtype() : input.float_dtype();
  p.b.dtype = fp8 ? input.fp8_dtype() : p.a.dtype;
  p.a.block = fp8 || input.spoilt() ? input.block() : octet_unscaled();
  p.b.block = fp8 || input.spoilt() ? input.block() : octet_unscaled();
  p.a.major = fp8 ? 0 : input.flag();
  p.b.major = fp8 ? 0 : input.flag();
  p.out_dtype = input.float_dtype();
  p.accumulate = input.flag();
  if (input.coin()) p.bias_dtype = input.coin() ? OCTET_F32 : p.out_dtype;
  p.max_multiprocessors = input.spoilt() ? input.number(-1, 200) : 0;
  if (input.coin()) p.fast_accumulation = input.flag();
  p.device = input.device();
  if (input.spoilt()) p.a.scale_dtype = input.number(0, 9);
  if (input.spoilt()) p.b.struct_size = static_cast<std::uint32_t>(input.number(0, 100));
  if (input.spoilt()) p.split_k = input.flag();
  if (input.spoilt()) p.group_kind = input.flag();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_gemm_plan);
  if (plan == nullptr || is_long({p.m, p.n, p.k})) return;
  auto args = with_tail<octet_gemm_args>();
  args.known.a = input.quantized(p.a.dtype, p.m, p.k, p.a.block);
  args.known.b = input.quantized(p.b.dtype, p.n, p.k, p.b.block);
  args.known.d = input.tensor(p.out_dtype, p.m, p.n);
  if (p.bias_dtype != 0 || input.spoilt()) {
    args.known.bias = input.tensor(p.bias_dtype, {p.n});
  }
  memory.run(input, plan.get(), octet_run_gemm, args);
}

inline octet_fp8_linear_problem layer_problem(Input& input) {
  octet_fp8_linear_problem p;
  octet_init_fp8_linear_problem(&p);
  p.m = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  p.dtype = input.float_dtype();
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = input.flag();
  read_training(input, &p);
  if (input.coin()) read_granularity(input, &p);
  if (input.coin()) p.bias_dtype = input.coin() ? OCTET_F32 : p.dtype;
  if (input.coin()) p.dbias_dtype = input.float_dtype();
  p.device = input.device();
  return p;
}

inline octet_block x_t_block(const octet_fp8_linear_problem& p) {
  return block_of_granularity(p,
                              octet_block_of(p.wgrad_blocks == OCTET_WGRAD_SQUARE ? 128 : 1, 128));
}

inline void fuzz_layer(Input& input, Memory& memory) {
  auto problem = with_tail<octet_fp8_linear_problem>();
  octet_fp8_linear_problem& p = problem.known;
  p = layer_problem(input);
  input.grow(&problem);
  octet_fp8_linear_saved_layout saved_layout;
  check_status(octet_make_fp8_linear_saved_layout(&p, &saved_layout));
  const PlannedPass pass =
      plan_pass(input, p, &octet_fp8_linear_options::gemm_backend,
                octet_make_fp8_linear_forward_plan, octet_make_fp8_linear_backward_plan);
  if (pass.plan == nullptr || is_long({p.m, p.n, p.k})) return;
  const octet_fp8_linear_saved saved = {input.quantized(p.format, p.k, p.m, x_t_block(p)),
                                        input.quantized(p.format, p.k, p.n, weight_block(p)),
                                        {}};
  octet_fp8_linear_forward_args f;
  octet_fp8_linear_backward_args b;
  OCTET_INIT(&f);
  OCTET_INIT(&b);
  f.saved = b.saved = saved;
  if (pass.forward) {
    f.x = input.tensor(p.dtype, p.m, p.k);
    f.w = input.tensor(p.dtype, p.n, p.k);
    f.weights.w = input.quantized(p.format, p.n, p.k, weight_block(p));
    f.y = input.tensor(p.dtype, p.m, p.n);
    if (p.bias_dtype != 0 || input.spoilt()) f.bias = input.tensor(p.bias_dtype, {p.n});
  } else {
    b.dy = input.tensor(p.dtype, p.m, p.n);
    b.dx = input.tensor(p.dtype, p.m, p.k);
    b.dw = input.tensor(p.dw_dtype, p.n, p.k);
    b.dbias = input.tensor(p.dbias_dtype, {p.n});
  }
  pass.run(
      input,
      [&](Input&, const octet_plan* plan) {
        memory.run(input, plan, octet_run_fp8_linear_forward, f);
      },
      [&](Input&, const octet_plan* plan) {
        memory.run(input, plan, octet_run_fp8_linear_backward, b);
      });
}

}  // namespace octet::fuzz
