// Operators on the heads of q and k: rope and rms_norm_rope.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline octet_rotation rotation(Input& input) {
  octet_rotation rotation;
  octet_init_rotation(&rotation);
  rotation.style = input.number(OCTET_ROPE_ROTATE_HALF, OCTET_ROPE_INTERLEAVED);
  rotation.full_cache = input.flag();
  if (input.coin()) rotation.rotary_dim = input.spoilt() ? input.extent() : 2 * input.choice(5);
  if (input.coin()) rotation.cache_rows = input.extent();
  rotation.cache_dtype = input.float_dtype();
  if (input.coin()) rotation.positions_dtype = input.number(OCTET_I32, OCTET_I64);
  return rotation;
}

// The extents that rope and rms_norm_rope share.
template <class Problem>
void read_heads(Input& input, Problem* p) {
  p->batch = input.few();
  p->seq = input.few();
  p->q_heads = input.few();
  p->k_heads = input.few();
  p->head_dim = input.spoilt() ? input.extent() : 2 * (1 + input.choice(4));
  p->dtype = input.float_dtype();
  p->rotation = rotation(input);
  p->device = input.device();
}

template <class Problem>
bool takes_long(const Problem& p) {
  return is_long({p.batch, p.seq, p.q_heads, p.head_dim}) ||
         is_long({p.batch, p.seq, p.k_heads, p.head_dim});
}

template <class Problem>
octet_tensor heads(Input& input, const Problem& p, std::int64_t count) {
  return input.tensor(p.dtype, {p.batch, p.seq, count, p.head_dim});
}

// Positions are mostly all 0, so that calls get past their check, else arbitrary bytes.
template <class Problem>
octet_rotation_args rotation_args(Input& input, const Problem& p) {
  const octet_rotation& r = p.rotation;
  const std::int64_t dim = r.rotary_dim != 0 ? r.rotary_dim : p.head_dim;
  const std::int64_t rows = r.cache_rows != 0 ? r.cache_rows : p.seq;
  const std::int64_t cols = r.full_cache != 0 ? dim : dim / 2;
  octet_rotation_args args{};
  args.cos = input.tensor(r.cache_dtype, rows, cols);
  args.sin = input.tensor(r.cache_dtype, rows, cols);
  if (r.positions_dtype != 0) {
    args.positions = input.tensor(r.positions_dtype, p.batch, p.seq);
    if (args.positions.data != nullptr && !input.spoilt()) {
      std::memset(args.positions.data, 0,
                  static_cast<std::size_t>(reach_bytes(args.positions, false)));
    }
  }
  return args;
}

inline void fuzz_rope_forward(Input& input, const octet_plan* plan, Memory& memory,
                              const octet_rope_problem& p) {
  auto args = with_tail<octet_rope_forward_args>();
  octet_rope_forward_args& a = args.known;
  a.q = heads(input, p, p.q_heads);
  if (p.k_heads != 0) a.k = heads(input, p, p.k_heads);
  a.q_out = input.coin() ? a.q : heads(input, p, p.q_heads);
  if (p.k_heads != 0) a.k_out = input.coin() ? a.k : heads(input, p, p.k_heads);
  a.rotation = rotation_args(input, p);
  memory.run(input, plan, octet_run_rope_forward, args);
}

inline void fuzz_rope_backward(Input& input, const octet_plan* plan, Memory& memory,
                               const octet_rope_problem& p) {
  octet_rope_backward_args a;
  OCTET_INIT(&a);
  a.dq_out = heads(input, p, p.q_heads);
  if (p.k_heads != 0) a.dk_out = heads(input, p, p.k_heads);
  a.dq = input.coin() ? a.dq_out : heads(input, p, p.q_heads);
  if (p.k_heads != 0) a.dk = input.coin() ? a.dk_out : heads(input, p, p.k_heads);
  a.rotation = rotation_args(input, p);
  memory.run(input, plan, octet_run_rope_backward, a);
}

inline void fuzz_rope(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_rope_problem);
  octet_rope_problem& p = problem.known;
  read_heads(input, &p);
  input.grow(&problem);
  const PlannedPass pass = plan_pass(input, p, &octet_plan_options::backend,
                                     octet_make_rope_forward_plan, octet_make_rope_backward_plan);
  if (pass.plan == nullptr || takes_long(p)) return;
  pass.run(input, fuzz_rope_forward, fuzz_rope_backward, memory, p);
}

// Tensors that forward and backward share, with weights and rstd, for q or k.
struct NormedHeads {
  octet_tensor x, g, rstd;
};

inline NormedHeads normed_heads(Input& input, const octet_rms_norm_rope_problem& p,
                                std::int64_t count) {
  NormedHeads heads_of{};
  if (count == 0) return heads_of;
  const bool by_head = p.norm == OCTET_NORM_HEAD;
  heads_of.x = heads(input, p, count);
  heads_of.g = input.tensor(p.weight_dtype, {by_head ? p.head_dim : count * p.head_dim});
  heads_of.rstd = input.tensor(OCTET_F32, {p.batch * p.seq * (by_head ? count : 1)});
  return heads_of;
}

inline void fuzz_rms_norm_rope_forward(Input& input, const octet_plan* plan, Memory& memory,
                                       const octet_rms_norm_rope_problem& p, const NormedHeads& q,
                                       const NormedHeads& k) {
  octet_rms_norm_rope_forward_args a;
  OCTET_INIT(&a);
  a.q = q.x, a.g_q = q.g, a.rstd_q = q.rstd;
  a.k = k.x, a.g_k = k.g, a.rstd_k = k.rstd;
  a.q_out = input.coin() ? a.q : heads(input, p, p.q_heads);
  if (p.k_heads != 0) a.k_out = input.coin() ? a.k : heads(input, p, p.k_heads);
  a.rotation = rotation_args(input, p);
  memory.run(input, plan, octet_run_rms_norm_rope_forward, a);
}

inline void fuzz_rms_norm_rope_backward(Input& input, const octet_plan* plan, Memory& memory,
                                        const octet_rms_norm_rope_problem& p, const NormedHeads& q,
                                        const NormedHeads& k) {
  octet_rms_norm_rope_backward_args a;
  OCTET_INIT(&a);
  a.q = q.x, a.g_q = q.g, a.rstd_q = q.rstd;
  a.k = k.x, a.g_k = k.g, a.rstd_k = k.rstd;
  a.dq_out = heads(input, p, p.q_heads);
  a.dq = input.coin() ? a.dq_out : heads(input, p, p.q_heads);
  a.dg_q = input.tensor(p.dg_dtype, {q.g.shape[0]});
  if (p.k_heads != 0) {
    a.dk_out = heads(input, p, p.k_heads);
    a.dk = heads(input, p, p.k_heads);
    a.dg_k = input.tensor(p.dg_dtype, {k.g.shape[0]});
  }
  a.rotation = rotation_args(input, p);
  memory.run(input, plan, octet_run_rms_norm_rope_backward, a);
}

inline void fuzz_rms_norm_rope(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_rms_norm_rope_problem);
  octet_rms_norm_rope_problem& p = problem.known;
  read_heads(input, &p);
  p.norm = input.number(OCTET_NORM_ROW, OCTET_NORM_HEAD);
  p.weight_dtype = input.float_dtype();
  p.eps = input.real();
  p.one_plus_weight = input.flag();
  p.training = input.flag();
  p.dg_dtype = input.float_dtype();
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_rms_norm_rope_forward_plan,
                octet_make_rms_norm_rope_backward_plan);
  if (pass.plan == nullptr || takes_long(p)) return;
  const NormedHeads q = normed_heads(input, p, p.q_heads);
  const NormedHeads k = normed_heads(input, p, p.k_heads);
  pass.run(input, fuzz_rms_norm_rope_forward, fuzz_rms_norm_rope_backward, memory, p, q, k);
}

}  // namespace octet::fuzz
