// attention, with sequences of equal lengths or with offsets, which are right unless spoilt.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline void read_mask(Input& input, octet_attention_problem* p) {
  p->left = input.spoilt() ? input.extent() : input.number(OCTET_NO_WINDOW, 3);
  p->right = input.spoilt() ? input.extent() : input.number(OCTET_NO_WINDOW, 3);
  p->align = input.number(OCTET_MASK_BOTTOM_RIGHT, OCTET_MASK_TOP_LEFT);
}

inline void read_attention(Input& input, octet_attention_problem* p) {
  p->batch = input.few();
  p->seq_q = input.few();
  p->seq_kv = input.few();
  if (input.coin() && p->seq_kv < 100) p->seq_kv += 62;  // several tiles of keys
  const std::int64_t heads = 1 + input.choice(2);
  p->heads_kv = input.spoilt() ? input.extent() : heads;
  p->heads_q = input.spoilt() ? input.extent() : heads * (1 + input.choice(2));
  p->dim_qk = input.spoilt() ? input.extent() : 1 + input.choice(8);
  p->dim_v = input.spoilt() ? input.extent() : input.choice(9);
  p->dtype = input.float_dtype();
  if (input.coin()) p->out_dtype = input.spoilt() ? input.float_dtype() : OCTET_F32;
  read_mask(input, p);
  p->scale = input.real();
  p->sink = input.flag();
  if (input.coin()) p->offsets_dtype = input.number(OCTET_I32, OCTET_I64);
  if (p->offsets_dtype != 0 || input.spoilt()) {
    const auto total = [&](std::int64_t seq) {
      std::int64_t rows = 0;
      if (__builtin_mul_overflow(p->batch, seq, &rows) || input.spoilt()) return input.extent();
      return rows;
    };
    p->total_q = total(p->seq_q);
    p->total_kv = total(p->seq_kv);
  }
  if (input.spoilt()) p->workspace_limit = static_cast<std::uint64_t>(input.extent());
  p->device = input.device();
}

// The extents of a tensor with one row per query or per key.
inline octet_tensor head_rows(Input& input, const octet_attention_problem& p, octet_dtype dtype,
                              bool queries, std::int64_t dim) {
  const std::int64_t heads = queries ? p.heads_q : p.heads_kv;
  if (p.offsets_dtype != 0) {
    return input.tensor(dtype, {queries ? p.total_q : p.total_kv, heads, dim});
  }
  return input.tensor(dtype, {p.batch, queries ? p.seq_q : p.seq_kv, heads, dim});
}

// One f32 per query and head: lse and its gradient.
inline octet_tensor query_floats(Input& input, const octet_attention_problem& p) {
  if (p.offsets_dtype != 0) return input.tensor(OCTET_F32, {p.heads_q, p.total_q});
  return input.tensor(OCTET_F32, {p.batch, p.heads_q, p.seq_q});
}

template <class Integer>
void write_offsets(Input& input, const octet_tensor& offsets, std::int64_t longest,
                   std::int64_t total) {
  std::int64_t end = 0;
  for (std::int64_t b = 0; b < offsets.shape[0]; ++b) {
    static_cast<Integer*>(offsets.data)[b] = static_cast<Integer>(end);
    const std::int64_t rows = input.coin() ? longest : longest / 2;
    end = std::min(end + rows, total);
  }
}

inline octet_tensor offsets(Input& input, const octet_attention_problem& p, std::int64_t longest,
                            std::int64_t total) {
  const octet_tensor offsets = input.tensor(p.offsets_dtype, {p.batch + 1});
  const bool as_wanted = offsets.data != nullptr && offsets.dtype == p.offsets_dtype &&
                         offsets.shape[0] == p.batch + 1 && offsets.strides[0] == 1 &&
                         reinterpret_cast<std::uintptr_t>(offsets.data) % 8 == 0;
  if (!as_wanted || input.spoilt()) return offsets;
  if (p.offsets_dtype == OCTET_I32) {
    write_offsets<std::int32_t>(input, offsets, longest, total);
  } else {
    write_offsets<std::int64_t>(input, offsets, longest, total);
  }
  return offsets;
}

inline octet_attention_inputs attention_inputs(Input& input, const octet_attention_problem& p,
                                               std::int64_t dim_v) {
  octet_attention_inputs inputs{};
  inputs.q = head_rows(input, p, p.dtype, true, p.dim_qk);
  inputs.k = head_rows(input, p, p.dtype, false, p.dim_qk);
  inputs.v = head_rows(input, p, p.dtype, false, dim_v);
  if (p.sink != 0) inputs.sink = input.tensor(OCTET_F32, {p.heads_q});
  if (p.offsets_dtype != 0) {
    inputs.offsets_q = offsets(input, p, p.seq_q, p.total_q);
    inputs.offsets_kv = offsets(input, p, p.seq_kv, p.total_kv);
  }
  inputs.reserved[0] = input.spoilt() ? 1 : 0;
  return inputs;
}

inline octet_dtype out_dtype(const octet_attention_problem& p) {
  return p.out_dtype != 0 ? p.out_dtype : p.dtype;
}

inline void fuzz_attention_forward(Input& input, const octet_plan* plan, Memory& memory,
                                   const octet_attention_problem& p, std::int64_t dim_v) {
  auto args = with_tail<octet_attention_forward_args>();
  octet_attention_forward_args& a = args.known;
  a.inputs = attention_inputs(input, p, dim_v);
  a.out = head_rows(input, p, out_dtype(p), true, dim_v);
  if (input.coin()) a.lse = query_floats(input, p);
  memory.run(input, plan, octet_run_attention_forward, args);
}

inline void fuzz_attention_backward(Input& input, const octet_plan* plan, Memory& memory,
                                    const octet_attention_problem& p, std::int64_t dim_v) {
  auto args = with_tail<octet_attention_backward_args>();
  octet_attention_backward_args& a = args.known;
  a.inputs = attention_inputs(input, p, dim_v);
  a.out = head_rows(input, p, out_dtype(p), true, dim_v);
  a.lse = query_floats(input, p);
  a.dout = head_rows(input, p, out_dtype(p), true, dim_v);
  if (input.coin()) a.dlse = query_floats(input, p);
  a.dq = head_rows(input, p, p.dtype, true, p.dim_qk);
  a.dk = head_rows(input, p, p.dtype, false, p.dim_qk);
  a.dv = head_rows(input, p, p.dtype, false, dim_v);
  if (p.sink != 0) a.dsink = input.tensor(OCTET_F32, {p.heads_q});
  memory.run(input, plan, octet_run_attention_backward, args);
}

inline void fuzz_attention(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_attention_problem);
  octet_attention_problem& p = problem.known;
  read_attention(input, &p);
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_attention_forward_plan,
                octet_make_attention_backward_plan);
  const std::int64_t dim_v = p.dim_v != 0 ? p.dim_v : p.dim_qk;
  if (pass.plan == nullptr || is_long({p.batch, p.seq_q, p.seq_kv, p.heads_q, p.dim_qk, 2}) ||
      is_long({p.batch, p.seq_q, p.seq_kv, p.heads_q, dim_v, 2}) ||
      is_long({p.total_q, p.total_kv, p.heads_q, p.dim_qk, 2})) {
    return;
  }
  pass.run(input, fuzz_attention_forward, fuzz_attention_backward, memory, p, dim_v);
}

}  // namespace octet::fuzz
