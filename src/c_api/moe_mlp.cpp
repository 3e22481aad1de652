#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "moe_mlp";
constexpr const char* kForward = "moe_mlp_forward";
constexpr const char* kBackward = "moe_mlp_backward";

MoeRouting read_routing(const octet_moe_mlp_problem& c) {
  MoeRouting routing;
  routing.dtype = read_dtype(kOp, "logits", c.logits_dtype);
  routing.score = static_cast<RouteScore>(c.score);
  routing.bias = read_flag(kOp, "bias", c.bias);
  routing.expert_groups = c.expert_groups;
  routing.top_groups = c.top_groups;
  routing.group_score = static_cast<ExpertGroupScore>(c.group_score);
  routing.normalize = read_flag(kOp, "normalize", c.normalize);
  routing.scale = c.scale;
  return routing;
}

MoeMlpProblem read_problem(const octet_moe_mlp_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  MoeMlpProblem problem;
  problem.tokens = c.tokens;
  problem.f = c.f;
  problem.k = c.k;
  problem.experts = c.experts;
  problem.top_k = c.top_k;
  problem.first_expert = c.first_expert;
  problem.local_experts = c.local_experts;
  problem.rows = c.rows;
  problem.capacity = c.capacity;
  problem.routing.reset();
  if (read_flag(kOp, "routing", c.routing)) problem.routing = read_routing(c);
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  problem.activation = static_cast<GateActivation>(c.activation);
  read_fp8_training(kOp, c, problem);
  problem.expected_rows = c.expected_rows;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

// The C++ API ignores what the problem does not use.
MoeMlpSaved read_saved(const char* op, const MoeMlpProblem& problem, const octet_moe_mlp_saved& c) {
  check_reserved(op, "saved", c);
  MoeMlpSaved saved;
  if (problem.routing) {
    saved.scores = read_tensor(op, "saved.scores", c.scores);
    saved.indices = read_tensor(op, "saved.indices", c.indices);
  }
  saved.row_of = read_tensor(op, "saved.row_of", c.row_of);
  saved.source = read_tensor(op, "saved.source", c.source);
  saved.sizes = read_tensor(op, "saved.sizes", c.sizes);
  saved.table = read_tensor(op, "saved.table", c.table);
  saved.status = read_tensor(op, "saved.status", c.status);
  saved.row_weight = read_tensor(op, "saved.row_weight", c.row_weight);
  saved.gate_up = read_tensor(op, "saved.gate_up", c.gate_up);
  saved.x_t = read_quantized(op, "saved.x_t", c.x_t);
  saved.w_gate_up_t = read_quantized(op, "saved.w_gate_up_t", c.w_gate_up_t);
  saved.h_t = read_quantized(op, "saved.h_t", c.h_t);
  saved.w_down_t = read_quantized(op, "saved.w_down_t", c.w_down_t);
  return saved;
}

octet_moe_mlp_saved write_saved(const MoeMlpSaved& saved) {
  return {write_tensor(saved.scores),         write_tensor(saved.indices),
          write_tensor(saved.row_of),         write_tensor(saved.source),
          write_tensor(saved.sizes),          write_tensor(saved.table),
          write_tensor(saved.status),         write_tensor(saved.row_weight),
          write_tensor(saved.gate_up),        write_quantized(saved.x_t),
          write_quantized(saved.w_gate_up_t), write_quantized(saved.h_t),
          write_quantized(saved.w_down_t),    {}};
}

MoeMlpForwardArgs read_forward(const MoeMlpProblem& problem,
                               const octet_moe_mlp_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  MoeMlpForwardArgs args;
  args.x = read_tensor(kForward, "x", c.x);
  if (problem.routing) {
    args.logits = read_tensor(kForward, "logits", c.logits);
    if (problem.routing->bias) args.bias = read_tensor(kForward, "bias", c.bias);
  } else {
    args.indices = read_tensor(kForward, "indices", c.indices);
    args.weights = read_tensor(kForward, "weights", c.weights);
  }
  if (problem.weights_quantized) {
    check_reserved(kForward, "experts", c.experts);
    check_reserved(kForward, "experts.gate_up", c.experts.gate_up);
    check_reserved(kForward, "experts.down", c.experts.down);
    args.experts.gate_up.w = read_quantized(kForward, "experts.gate_up.w", c.experts.gate_up.w);
    args.experts.down.w = read_quantized(kForward, "experts.down.w", c.experts.down.w);
  } else {
    args.w_gate_up = read_tensor(kForward, "w_gate_up", c.w_gate_up);
    args.w_down = read_tensor(kForward, "w_down", c.w_down);
  }
  args.y = read_tensor(kForward, "y", c.y);
  if (problem.training) args.saved = read_saved(kForward, problem, c.saved);
  return args;
}

MoeMlpBackwardArgs read_backward(const MoeMlpProblem& problem,
                                 const octet_moe_mlp_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  MoeMlpBackwardArgs args;
  args.dy = read_tensor(kBackward, "dy", c.dy);
  args.saved = read_saved(kBackward, problem, c.saved);
  if (problem.need_dx) args.dx = read_tensor(kBackward, "dx", c.dx);
  if (problem.routing) {
    args.dscores = read_tensor(kBackward, "dscores", c.dscores);
    args.dlogits = read_tensor(kBackward, "dlogits", c.dlogits);
  } else {
    args.dweights = read_tensor(kBackward, "dweights", c.dweights);
  }
  if (problem.need_dw) {
    args.dw_gate_up = read_tensor(kBackward, "dw_gate_up", c.dw_gate_up);
    args.dw_down = read_tensor(kBackward, "dw_down", c.dw_down);
  }
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_moe_mlp_saved_bytes(const octet_moe_mlp_problem* problem, uint64_t* bytes) {
  return guarded([&] {
    check_pointer(kOp, "bytes", bytes);
    *bytes = octet::moe_mlp_saved_layout(read_problem(problem)).bytes;
  });
}

octet_status octet_view_moe_mlp_saved(const octet_moe_mlp_problem* problem, void* memory,
                                      octet_moe_mlp_saved* saved) {
  return guarded([&] {
    check_pointer(kOp, "memory", memory);
    check_pointer(kOp, "saved", saved);
    *saved = write_saved(octet::moe_mlp_saved_layout(read_problem(problem)).view(memory));
  });
}

octet_status octet_make_moe_mlp_forward_plan(const octet_moe_mlp_problem* problem,
                                             const octet_fp8_linear_options* options,
                                             octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_moe_mlp_forward, problem, options, plan);
}

octet_status octet_make_moe_mlp_backward_plan(const octet_moe_mlp_problem* problem,
                                              const octet_fp8_linear_options* options,
                                              octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_moe_mlp_backward, problem, options,
                 plan);
}

octet_status octet_run_moe_mlp_forward(const octet_plan* plan,
                                       const octet_moe_mlp_forward_args* args, void* workspace,
                                       size_t workspace_bytes, void* stream) {
  return run_op<octet::MoeMlpForwardPlan>(kForward, read_forward, plan, args, workspace,
                                          workspace_bytes, stream);
}

octet_status octet_run_moe_mlp_backward(const octet_plan* plan,
                                        const octet_moe_mlp_backward_args* args, void* workspace,
                                        size_t workspace_bytes, void* stream) {
  return run_op<octet::MoeMlpBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                           workspace_bytes, stream);
}

}  // extern "C"
