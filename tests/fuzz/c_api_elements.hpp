// Operators on rows of elements: rms_norm and gated_activation.
#pragma once

#include "fuzz/c_api_groups.hpp"

namespace octet::fuzz {

inline octet_fp8_output fp8_output(Input& input) {
  octet_fp8_output output;
  octet_init_fp8_output(&output);
  output.enabled = input.flag();
  output.format = input.fp8_dtype();
  output.block = input.block();
  output.transposed_block = input.block();
  output.amax_floor = input.real();
  output.pow2_scales = input.flag();
  return output;
}

// Absent tensors if the FP8 output is off, as such a call should have.
inline octet_fp8_copies fp8_copies(Input& input, const octet_fp8_output& output, std::int64_t rows,
                                   std::int64_t cols) {
  octet_fp8_copies copies{};
  if (output.enabled == 0 && !input.spoilt()) return copies;
  copies.out = input.quantized(output.format, rows, cols, output.block);
  copies.transposed = input.quantized(output.format, cols, rows, output.transposed_block);
  return copies;
}

inline void fuzz_rms_norm_forward(Input& input, const octet_plan* plan, Memory& memory,
                                  const octet_rms_norm_problem& p) {
  auto args = with_tail<octet_rms_norm_forward_args>();
  octet_rms_norm_forward_args& a = args.known;
  a.x = input.tensor(p.dtype, p.rows, p.cols);
  if (p.residual != 0) a.residual = input.tensor(p.dtype, p.rows, p.cols);
  a.g = input.tensor(p.weight_dtype, {p.cols});
  if (p.fp8.enabled == 0) a.y = input.tensor(p.dtype, p.rows, p.cols);
  a.fp8 = fp8_copies(input, p.fp8, p.rows, p.cols);
  if (p.residual != 0) a.sum = input.tensor(p.dtype, p.rows, p.cols);
  if (p.training != 0) a.rstd = input.tensor(OCTET_F32, {p.rows});
  memory.run(input, plan, octet_run_rms_norm_forward, args);
}

inline void fuzz_rms_norm_backward(Input& input, const octet_plan* plan, Memory& memory,
                                   const octet_rms_norm_problem& p) {
  auto args = with_tail<octet_rms_norm_backward_args>();
  octet_rms_norm_backward_args& a = args.known;
  a.dy = input.tensor(p.dtype, p.rows, p.cols);
  a.h = input.tensor(p.dtype, p.rows, p.cols);
  a.g = input.tensor(p.weight_dtype, {p.cols});
  a.rstd = input.tensor(OCTET_F32, {p.rows});
  if (input.coin()) a.dsum = input.tensor(p.dtype, p.rows, p.cols);
  a.dx = input.tensor(p.dtype, p.rows, p.cols);
  if (input.coin()) a.dresidual = input.tensor(p.dtype, p.rows, p.cols);
  a.dg = input.tensor(p.dg_dtype, {p.cols});
  memory.run(input, plan, octet_run_rms_norm_backward, args);
}

inline void fuzz_rms_norm(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_rms_norm_problem);
  octet_rms_norm_problem& p = problem.known;
  p.rows = input.spoilt() ? 0 : input.extent();
  p.cols = input.extent();
  p.dtype = input.float_dtype();
  p.weight_dtype = input.float_dtype();
  p.eps = input.real();
  p.residual = input.flag();
  p.one_plus_weight = input.flag();
  p.training = input.flag();
  p.dg_dtype = input.float_dtype();
  p.fp8 = fp8_output(input);
  p.device = input.device();
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_rms_norm_forward_plan,
                octet_make_rms_norm_backward_plan);
  if (pass.plan == nullptr || is_long({p.rows, p.cols})) return;
  pass.run(input, fuzz_rms_norm_forward, fuzz_rms_norm_backward, memory, p);
}

// The copies of an output over groups, or of one without.
inline octet_fp8_copies gated_copies(Input& input, const octet_gated_activation_problem& p,
                                     std::int64_t cols) {
  octet_fp8_copies copies = fp8_copies(input, p.fp8, p.rows, cols);
  if (p.groups <= 0 || p.fp8.enabled == 0) return copies;
  int64_t blocks = 0;
  if (octet_max_token_blocks(p.groups, p.rows, &blocks) != OCTET_OK) __builtin_trap();
  copies.transposed =
      input.quantized_batch(p.fp8.format, blocks, cols, 128, p.fp8.transposed_block);
  return copies;
}

inline void fuzz_gated_forward(Input& input, const octet_plan* plan, Memory& memory,
                               const octet_gated_activation_problem& p) {
  auto args = with_tail<octet_gated_activation_forward_args>();
  octet_gated_activation_forward_args& a = args.known;
  a.gate = input.tensor(p.dtype, p.rows, p.cols);
  a.up = input.tensor(p.dtype, p.rows, p.cols);
  if (p.row_weight != 0) a.row_weight = input.tensor(OCTET_F32, {p.rows});
  if (p.fp8.enabled == 0) a.y = input.tensor(p.dtype, p.rows, p.cols);
  a.fp8 = gated_copies(input, p, p.cols);
  if (p.groups > 0) a.table = group_table(input, p.groups, p.rows);
  memory.run(input, plan, octet_run_gated_activation_forward, args);
}

inline void fuzz_gated_backward(Input& input, const octet_plan* plan, Memory& memory,
                                const octet_gated_activation_problem& p) {
  auto args = with_tail<octet_gated_activation_backward_args>();
  octet_gated_activation_backward_args& a = args.known;
  a.dy = input.tensor(p.dtype, p.rows, p.cols);
  a.gate = input.tensor(p.dtype, p.rows, p.cols);
  a.up = input.tensor(p.dtype, p.rows, p.cols);
  if (p.row_weight != 0) a.row_weight = input.tensor(OCTET_F32, {p.rows});
  if (p.fp8.enabled == 0) {
    a.dgate = input.tensor(p.dtype, p.rows, p.cols);
    a.dup = input.tensor(p.dtype, p.rows, p.cols);
  }
  a.fp8 = gated_copies(input, p, 2 * p.cols);
  if (p.groups > 0) a.table = group_table(input, p.groups, p.rows);
  if (p.row_weight != 0) a.d_row_weight = input.tensor(OCTET_F32, {p.rows});
  memory.run(input, plan, octet_run_gated_activation_backward, args);
}

inline void fuzz_gated_activation(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_gated_activation_problem);
  octet_gated_activation_problem& p = problem.known;
  p.rows = input.spoilt() ? 0 : input.extent();
  p.cols = input.extent();
  p.dtype = input.float_dtype();
  p.activation = input.number(OCTET_GATE_SILU, OCTET_GATE_RELU_SQUARED);
  p.row_weight = input.flag();
  p.fp8 = fp8_output(input);
  if (input.coin()) {
    p.groups = input.few();
    p.tail = input.number(OCTET_TAIL_ZERO, OCTET_TAIL_UNTOUCHED);
    if (!input.spoilt()) p.fp8.block = octet_block_of(1, 128);
  }
  p.device = input.device();
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_gated_activation_forward_plan,
                octet_make_gated_activation_backward_plan);
  if (pass.plan == nullptr || is_long({p.groups + 1, p.rows + 128, p.cols})) return;
  pass.run(input, fuzz_gated_forward, fuzz_gated_backward, memory, p);
}

}  // namespace octet::fuzz
