// The C structs of attention.
#pragma once

#include "bad_input/c_structs.hpp"

namespace octet::bad_input {

inline octet_attention_problem to_c(const AttentionProblem& problem) {
  octet_attention_problem c;
  octet_init_attention_problem(&c);
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.batch = problem.batch;
  c.seq_q = problem.seq_q;
  c.seq_kv = problem.seq_kv;
  c.heads_q = problem.heads_q;
  c.heads_kv = problem.heads_kv;
  c.dim_qk = problem.dim_qk;
  c.dim_v = problem.dim_v;
  c.left = problem.mask.left;
  c.right = problem.mask.right;
  c.align = static_cast<octet_mask_alignment>(problem.mask.align);
  c.out_dtype = to_c(problem.out_dtype);
  c.scale = problem.scale;
  c.sink = problem.sink;
  c.offsets_dtype = to_c(problem.offsets_dtype);
  c.total_q = problem.total_q;
  c.total_kv = problem.total_kv;
  c.workspace_limit = problem.workspace_limit;
  c.device = to_c(problem.device);
  return c;
}

inline octet_attention_inputs to_c(const AttentionInputs& inputs) {
  return {to_c(inputs.q),
          to_c(inputs.k),
          to_c(inputs.v),
          to_c(inputs.sink),
          to_c(inputs.offsets_q),
          to_c(inputs.offsets_kv),
          {}};
}
inline octet_attention_forward_args to_c(const AttentionForwardArgs& args) {
  octet_attention_forward_args c;
  OCTET_INIT(&c);
  c.inputs = to_c(args.inputs);
  c.out = to_c(args.out);
  c.lse = to_c(args.lse);
  return c;
}
inline octet_attention_backward_args to_c(const AttentionBackwardArgs& args) {
  octet_attention_backward_args c;
  OCTET_INIT(&c);
  c.inputs = to_c(args.inputs);
  c.out = to_c(args.out);
  c.lse = to_c(args.lse);
  c.dout = to_c(args.dout);
  c.dlse = to_c(args.dlse);
  c.dq = to_c(args.dq);
  c.dk = to_c(args.dk);
  c.dv = to_c(args.dv);
  c.dsink = to_c(args.dsink);
  return c;
}

}  // namespace octet::bad_input
