// The gated MLP. It has many tensors, so extents are small enough for all to fit the arena.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline octet_gated_mlp_problem mlp_problem(Input& input) {
  octet_gated_mlp_problem p;
  octet_init_gated_mlp_problem(&p);
  p.m = input.few();
  p.f = input.few();
  p.k = input.few();
  p.dtype = input.float_dtype();
  p.activation = input.number(OCTET_GATE_SILU, OCTET_GATE_RELU_SQUARED);
  p.down = input.flag();
  p.fp8 = input.flag();
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = p.fp8 != 0 || input.spoilt() ? input.flag() : 0;
  read_training(input, &p);
  if (p.fp8 != 0 && input.coin()) read_granularity(input, &p);
  p.unfused = p.fp8 != 0 || input.spoilt() ? input.flag() : 0;
  p.device = input.device();
  return p;
}

// x or h, quantised and transposed, for the weight gradients.
inline octet_quantized turned_over(Input& input, const octet_gated_mlp_problem& p,
                                   std::int64_t features) {
  const std::int64_t side = p.wgrad_blocks == OCTET_WGRAD_SQUARE ? 128 : 1;
  return input.quantized(p.format, features, p.m,
                         block_of_granularity(p, octet_block_of(side, 128)));
}

inline octet_quantized mlp_weight(Input& input, const octet_gated_mlp_problem& p, std::int64_t rows,
                                  std::int64_t cols) {
  return input.quantized(p.format, rows, cols, weight_block(p));
}

inline octet_gated_mlp_saved mlp_saved(Input& input, const octet_gated_mlp_problem& p) {
  octet_gated_mlp_saved saved{};
  saved.gate_up = input.tensor(p.dtype, p.m, 2 * p.f);
  if (p.fp8 == 0) {
    saved.x = input.tensor(p.dtype, p.m, p.k);
    saved.h = input.tensor(p.dtype, p.m, p.f);
    return saved;
  }
  saved.x_t = turned_over(input, p, p.k);
  saved.w_gate_up_t = mlp_weight(input, p, p.k, 2 * p.f);
  saved.h_t = turned_over(input, p, p.f);
  saved.w_down_t = mlp_weight(input, p, p.f, p.k);
  return saved;
}

inline void fuzz_mlp_forward(Input& input, const octet_plan* plan, Memory& memory,
                             const octet_gated_mlp_problem& p) {
  octet_gated_mlp_forward_args a;
  OCTET_INIT(&a);
  a.x = input.tensor(p.dtype, p.m, p.k);
  a.w_gate_up = input.tensor(p.dtype, 2 * p.f, p.k);
  a.w_down = input.tensor(p.dtype, p.k, p.f);
  if (p.weights_quantized != 0) {
    a.weights.gate_up.w = mlp_weight(input, p, 2 * p.f, p.k);
    a.weights.down.w = mlp_weight(input, p, p.k, p.f);
  }
  if (p.down != 0) {
    a.y = input.tensor(p.dtype, p.m, p.k);
  } else if (p.fp8 != 0) {
    a.h_fp8.out = input.quantized(p.format, p.m, p.f, octet_block_of(1, 128));
    a.h_fp8.transposed = turned_over(input, p, p.f);
  } else {
    a.h = input.tensor(p.dtype, p.m, p.f);
  }
  a.saved = mlp_saved(input, p);
  memory.run(input, plan, octet_run_gated_mlp_forward, a);
}

inline void fuzz_mlp_backward(Input& input, const octet_plan* plan, Memory& memory,
                              const octet_gated_mlp_problem& p) {
  octet_gated_mlp_backward_args a;
  OCTET_INIT(&a);
  a.dy = input.tensor(p.dtype, p.m, p.k);
  a.dh = input.tensor(p.dtype, p.m, p.f);
  a.w_gate_up = input.tensor(p.dtype, 2 * p.f, p.k);
  a.w_down = input.tensor(p.dtype, p.k, p.f);
  a.saved = mlp_saved(input, p);
  a.dx = input.tensor(p.dtype, p.m, p.k);
  a.dw_gate_up = input.tensor(p.dw_dtype, 2 * p.f, p.k);
  a.dw_down = input.tensor(p.dw_dtype, p.k, p.f);
  memory.run(input, plan, octet_run_gated_mlp_backward, a);
}

inline void fuzz_gated_mlp(Input& input, Memory& memory) {
  auto problem = with_tail<octet_gated_mlp_problem>();
  octet_gated_mlp_problem& p = problem.known;
  p = mlp_problem(input);
  input.grow(&problem);
  octet_gated_mlp_saved_layout layout;
  check_status(octet_make_gated_mlp_saved_layout(&p, &layout));
  const PlannedPass pass =
      plan_pass(input, p, &octet_fp8_linear_options::gemm_backend,
                octet_make_gated_mlp_forward_plan, octet_make_gated_mlp_backward_plan);
  if (pass.plan == nullptr || is_long({p.m, p.f, p.k})) return;
  pass.run(input, fuzz_mlp_forward, fuzz_mlp_backward, memory, p);
}

}  // namespace octet::fuzz
