#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "attention";
constexpr const char* kForward = "attention_forward";
constexpr const char* kBackward = "attention_backward";

static_assert(equal(OCTET_MASK_BOTTOM_RIGHT, MaskAlignment::bottom_right));
static_assert(equal(OCTET_MASK_TOP_LEFT, MaskAlignment::top_left));
static_assert(OCTET_NO_WINDOW == kNoWindow);

AttentionProblem read_problem(const octet_attention_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  AttentionProblem problem;
  problem.batch = c.batch;
  problem.seq_q = c.seq_q;
  problem.seq_kv = c.seq_kv;
  problem.heads_q = c.heads_q;
  problem.heads_kv = c.heads_kv;
  problem.dim_qk = c.dim_qk;
  problem.dim_v = c.dim_v;
  problem.dtype = read_dtype(kOp, "q", c.dtype);
  problem.out_dtype = read_optional_dtype(kOp, "out", c.out_dtype);
  problem.mask = {c.left, c.right, static_cast<MaskAlignment>(c.align)};
  problem.scale = c.scale;
  problem.sink = read_flag(kOp, "sink", c.sink);
  problem.offsets_dtype = read_optional_dtype(kOp, "offsets", c.offsets_dtype);
  problem.total_q = c.total_q;
  problem.total_kv = c.total_kv;
  problem.workspace_limit = c.workspace_limit;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

AttentionInputs read_inputs(const AttentionProblem& problem, const octet_attention_inputs& c) {
  check_reserved(kOp, "inputs", c);
  AttentionInputs inputs;
  inputs.q = read_tensor(kOp, "q", c.q);
  inputs.k = read_tensor(kOp, "k", c.k);
  inputs.v = read_tensor(kOp, "v", c.v);
  if (problem.sink) inputs.sink = read_tensor(kOp, "sink", c.sink);
  if (problem.offsets_dtype) {
    inputs.offsets_q = read_tensor(kOp, "offsets_q", c.offsets_q);
    inputs.offsets_kv = read_tensor(kOp, "offsets_kv", c.offsets_kv);
  }
  return inputs;
}

AttentionForwardArgs read_forward(const AttentionProblem& problem,
                                  const octet_attention_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  AttentionForwardArgs args;
  args.inputs = read_inputs(problem, c.inputs);
  args.out = read_tensor(kOp, "out", c.out);
  args.lse = read_tensor(kOp, "lse", c.lse);
  return args;
}

AttentionBackwardArgs read_backward(const AttentionProblem& problem,
                                    const octet_attention_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  AttentionBackwardArgs args;
  args.inputs = read_inputs(problem, c.inputs);
  args.out = read_tensor(kOp, "out", c.out);
  args.lse = read_tensor(kOp, "lse", c.lse);
  args.dout = read_tensor(kOp, "dout", c.dout);
  args.dlse = read_tensor(kOp, "dlse", c.dlse);
  args.dq = read_tensor(kOp, "dq", c.dq);
  args.dk = read_tensor(kOp, "dk", c.dk);
  args.dv = read_tensor(kOp, "dv", c.dv);
  if (problem.sink) args.dsink = read_tensor(kOp, "dsink", c.dsink);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_attention_forward_plan(const octet_attention_problem* problem,
                                               const octet_plan_options* options,
                                               octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_attention_forward, problem, options,
                 plan);
}

octet_status octet_make_attention_backward_plan(const octet_attention_problem* problem,
                                                const octet_plan_options* options,
                                                octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_attention_backward, problem, options,
                 plan);
}

octet_status octet_run_attention_forward(const octet_plan* plan,
                                         const octet_attention_forward_args* args, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return run_op<octet::AttentionForwardPlan>(kForward, read_forward, plan, args, workspace,
                                             workspace_bytes, stream);
}

octet_status octet_run_attention_backward(const octet_plan* plan,
                                          const octet_attention_backward_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::AttentionBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                              workspace_bytes, stream);
}

}  // extern "C"
