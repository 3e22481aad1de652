// The C structs of the operators that work element by element and row by row.
#pragma once

#include "bad_input/c_structs.hpp"

namespace octet::bad_input {

// Not inlined, for the same reason as to_c() of a block.
[[gnu::noinline]] inline octet_fp8_output to_c(const std::optional<Fp8Output>& output) {
  octet_fp8_output c;
  octet_init_fp8_output(&c);
  if (!output) return c;
  c.enabled = 1;
  c.format = static_cast<octet_dtype>(output->format);
  c.block = to_c(output->block);
  c.transposed_block = to_c(output->transposed_block);
  c.amax_floor = output->amax_floor;
  c.pow2_scales = output->pow2_scales;
  return c;
}
inline octet_fp8_copies to_c(const Fp8Copies& copies) {
  return {to_c(copies.out), to_c(copies.transposed), {}};
}

inline octet_rms_norm_problem to_c(const RmsNormProblem& problem) {
  octet_rms_norm_problem c;
  octet_init_rms_norm_problem(&c);
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.weight_dtype = static_cast<octet_dtype>(problem.weight_dtype);
  c.eps = problem.eps;
  c.residual = problem.residual;
  c.one_plus_weight = problem.one_plus_weight;
  c.training = problem.training;
  c.dg_dtype = static_cast<octet_dtype>(problem.dg_dtype);
  c.fp8 = to_c(problem.fp8);
  c.device = to_c(problem.device);
  return c;
}
inline octet_rms_norm_forward_args to_c(const RmsNormForwardArgs& args) {
  octet_rms_norm_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.residual = to_c(args.residual);
  c.g = to_c(args.g);
  c.y = to_c(args.y);
  c.fp8 = to_c(args.fp8);
  c.sum = to_c(args.sum);
  c.rstd = to_c(args.rstd);
  return c;
}
inline octet_rms_norm_backward_args to_c(const RmsNormBackwardArgs& args) {
  octet_rms_norm_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.h = to_c(args.h);
  c.g = to_c(args.g);
  c.rstd = to_c(args.rstd);
  c.dsum = to_c(args.dsum);
  c.dx = to_c(args.dx);
  c.dresidual = to_c(args.dresidual);
  c.dg = to_c(args.dg);
  return c;
}

[[gnu::noinline]] inline octet_rotation to_c(const Rotation& rotation) {
  octet_rotation c;
  octet_init_rotation(&c);
  c.style = static_cast<octet_rope_style>(rotation.style);
  c.rotary_dim = rotation.rotary_dim;
  c.cache_rows = rotation.cache_rows;
  c.full_cache = rotation.full_cache;
  c.cache_dtype = static_cast<octet_dtype>(rotation.cache_dtype);
  if (rotation.positions_dtype) {
    c.positions_dtype = static_cast<octet_dtype>(*rotation.positions_dtype);
  }
  return c;
}
inline octet_rotation_args to_c(const RotationArgs& args) {
  return {to_c(args.cos), to_c(args.sin), to_c(args.positions), {}};
}

inline octet_rope_problem to_c(const RopeProblem& problem) {
  octet_rope_problem c;
  octet_init_rope_problem(&c);
  c.batch = problem.batch;
  c.seq = problem.seq;
  c.q_heads = problem.q_heads;
  c.k_heads = problem.k_heads;
  c.head_dim = problem.head_dim;
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.rotation = to_c(problem.rotation);
  c.device = to_c(problem.device);
  return c;
}
inline octet_rope_forward_args to_c(const RopeForwardArgs& args) {
  octet_rope_forward_args c;
  OCTET_INIT(&c);
  c.q = to_c(args.q);
  c.k = to_c(args.k);
  c.q_out = to_c(args.q_out);
  c.k_out = to_c(args.k_out);
  c.rotation = to_c(args.rotation);
  return c;
}
inline octet_rope_backward_args to_c(const RopeBackwardArgs& args) {
  octet_rope_backward_args c;
  OCTET_INIT(&c);
  c.dq_out = to_c(args.dq_out);
  c.dk_out = to_c(args.dk_out);
  c.dq = to_c(args.dq);
  c.dk = to_c(args.dk);
  c.rotation = to_c(args.rotation);
  return c;
}

inline octet_rms_norm_rope_problem to_c(const RmsNormRopeProblem& problem) {
  octet_rms_norm_rope_problem c;
  octet_init_rms_norm_rope_problem(&c);
  c.batch = problem.batch;
  c.seq = problem.seq;
  c.q_heads = problem.q_heads;
  c.k_heads = problem.k_heads;
  c.head_dim = problem.head_dim;
  c.norm = static_cast<octet_norm_scope>(problem.norm);
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.weight_dtype = static_cast<octet_dtype>(problem.weight_dtype);
  c.eps = problem.eps;
  c.one_plus_weight = problem.one_plus_weight;
  c.training = problem.training;
  c.dg_dtype = static_cast<octet_dtype>(problem.dg_dtype);
  c.rotation = to_c(problem.rotation);
  c.device = to_c(problem.device);
  return c;
}
inline octet_rms_norm_rope_forward_args to_c(const RmsNormRopeForwardArgs& args) {
  octet_rms_norm_rope_forward_args c;
  OCTET_INIT(&c);
  c.q = to_c(args.q);
  c.k = to_c(args.k);
  c.g_q = to_c(args.g_q);
  c.g_k = to_c(args.g_k);
  c.q_out = to_c(args.q_out);
  c.k_out = to_c(args.k_out);
  c.rstd_q = to_c(args.rstd_q);
  c.rstd_k = to_c(args.rstd_k);
  c.rotation = to_c(args.rotation);
  return c;
}
inline octet_rms_norm_rope_backward_args to_c(const RmsNormRopeBackwardArgs& args) {
  octet_rms_norm_rope_backward_args c;
  OCTET_INIT(&c);
  c.dq_out = to_c(args.dq_out);
  c.dk_out = to_c(args.dk_out);
  c.q = to_c(args.q);
  c.k = to_c(args.k);
  c.g_q = to_c(args.g_q);
  c.g_k = to_c(args.g_k);
  c.rstd_q = to_c(args.rstd_q);
  c.rstd_k = to_c(args.rstd_k);
  c.dq = to_c(args.dq);
  c.dk = to_c(args.dk);
  c.dg_q = to_c(args.dg_q);
  c.dg_k = to_c(args.dg_k);
  c.rotation = to_c(args.rotation);
  return c;
}

inline octet_gated_activation_problem to_c(const GatedActivationProblem& problem) {
  octet_gated_activation_problem c;
  octet_init_gated_activation_problem(&c);
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.activation = static_cast<octet_gate_activation>(problem.activation);
  c.row_weight = problem.row_weight;
  c.fp8 = to_c(problem.fp8);
  c.groups = problem.groups;
  c.tail = static_cast<octet_group_tail>(problem.tail);
  c.device = to_c(problem.device);
  return c;
}
inline octet_gated_activation_forward_args to_c(const GatedActivationForwardArgs& args) {
  octet_gated_activation_forward_args c;
  OCTET_INIT(&c);
  c.gate = to_c(args.gate);
  c.up = to_c(args.up);
  c.row_weight = to_c(args.row_weight);
  c.y = to_c(args.y);
  c.fp8 = to_c(args.fp8);
  c.table = to_c(args.table);
  return c;
}
inline octet_gated_activation_backward_args to_c(const GatedActivationBackwardArgs& args) {
  octet_gated_activation_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.gate = to_c(args.gate);
  c.up = to_c(args.up);
  c.row_weight = to_c(args.row_weight);
  c.dgate = to_c(args.dgate);
  c.dup = to_c(args.dup);
  c.fp8 = to_c(args.fp8);
  c.d_row_weight = to_c(args.d_row_weight);
  c.table = to_c(args.table);
  return c;
}

}  // namespace octet::bad_input
