#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "gated_mlp";
constexpr const char* kForward = "gated_mlp_forward";
constexpr const char* kBackward = "gated_mlp_backward";

GatedMlpProblem read_problem(const octet_gated_mlp_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  GatedMlpProblem problem;
  problem.m = c.m;
  problem.f = c.f;
  problem.k = c.k;
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  problem.activation = static_cast<GateActivation>(c.activation);
  problem.down = read_flag(kOp, "down", c.down);
  problem.fp8 = read_flag(kOp, "fp8", c.fp8);
  read_fp8_training(kOp, c, problem);
  read_granularity(kOp, c, problem);
  problem.unfused = read_flag(kOp, "unfused", c.unfused);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

// What the plain and the FP8 layer save. The C++ API ignores what the problem does not use.
GatedMlpSaved read_saved(const char* op, const GatedMlpProblem& problem,
                         const octet_gated_mlp_saved& c) {
  GatedMlpSaved saved;
  check_reserved(op, "saved", c);
  saved.gate_up = read_tensor(op, "saved.gate_up", c.gate_up);
  if (problem.fp8) {
    saved.x_t = read_quantized(op, "saved.x_t", c.x_t);
    saved.w_gate_up_t = read_quantized(op, "saved.w_gate_up_t", c.w_gate_up_t);
  } else {
    saved.x = read_tensor(op, "saved.x", c.x);
  }
  if (!problem.down) return saved;
  if (problem.fp8) {
    saved.h_t = read_quantized(op, "saved.h_t", c.h_t);
    saved.w_down_t = read_quantized(op, "saved.w_down_t", c.w_down_t);
  } else {
    saved.h = read_tensor(op, "saved.h", c.h);
  }
  return saved;
}

GatedMlpForwardArgs read_forward(const GatedMlpProblem& problem,
                                 const octet_gated_mlp_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  GatedMlpForwardArgs args;
  args.x = read_tensor(kForward, "x", c.x);
  if (problem.weights_quantized) {
    check_reserved(kForward, "weights", c.weights);
    check_reserved(kForward, "weights.gate_up", c.weights.gate_up);
    args.weights.gate_up.w = read_quantized(kForward, "weights.gate_up.w", c.weights.gate_up.w);
    if (problem.down) {
      check_reserved(kForward, "weights.down", c.weights.down);
      args.weights.down.w = read_quantized(kForward, "weights.down.w", c.weights.down.w);
    }
  } else {
    args.w_gate_up = read_tensor(kForward, "w_gate_up", c.w_gate_up);
    if (problem.down) args.w_down = read_tensor(kForward, "w_down", c.w_down);
  }
  if (problem.down) {
    args.y = read_tensor(kForward, "y", c.y);
  } else if (problem.fp8) {
    check_reserved(kForward, "h_fp8", c.h_fp8);
    args.h_fp8.out = read_quantized(kForward, "h_fp8.out", c.h_fp8.out);
    args.h_fp8.transposed = read_quantized(kForward, "h_fp8.transposed", c.h_fp8.transposed);
  } else {
    args.h = read_tensor(kForward, "h", c.h);
  }
  if (problem.training) args.saved = read_saved(kForward, problem, c.saved);
  return args;
}

GatedMlpBackwardArgs read_backward(const GatedMlpProblem& problem,
                                   const octet_gated_mlp_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  GatedMlpBackwardArgs args;
  if (problem.down) {
    args.dy = read_tensor(kBackward, "dy", c.dy);
  } else {
    args.dh = read_tensor(kBackward, "dh", c.dh);
  }
  if (!problem.fp8) {
    args.w_gate_up = read_tensor(kBackward, "w_gate_up", c.w_gate_up);
    if (problem.down) args.w_down = read_tensor(kBackward, "w_down", c.w_down);
  }
  args.saved = read_saved(kBackward, problem, c.saved);
  if (problem.need_dx) args.dx = read_tensor(kBackward, "dx", c.dx);
  if (problem.need_dw) {
    args.dw_gate_up = read_tensor(kBackward, "dw_gate_up", c.dw_gate_up);
    if (problem.down) args.dw_down = read_tensor(kBackward, "dw_down", c.dw_down);
  }
  return args;
}

GatedMlpCost cost_of(const octet_plan* plan) {
  check_pointer(kOp, "the plan", plan);
  if (const auto* forward = std::any_cast<GatedMlpForwardPlan>(&plan->plan)) return cost(*forward);
  if (const auto* backward = std::any_cast<GatedMlpBackwardPlan>(&plan->plan))
    return cost(*backward);
  refuse_argument(kOp, ": the plan must be one of gated_mlp, got one of octet_make_", plan->op,
                  "_plan()");
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_gated_mlp_saved_layout(const octet_gated_mlp_problem* problem,
                                               octet_gated_mlp_saved_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    const octet::GatedMlpSavedLayout result = octet::gated_mlp_saved_layout(read_problem(problem));
    *layout = {sizeof *layout,
               0,
               result.gate_up_bytes,
               result.h_bytes,
               write_layout(result.x_t),
               write_layout(result.w_gate_up_t),
               write_layout(result.h_t),
               write_layout(result.w_down_t),
               {}};
  });
}

octet_status octet_gated_mlp_cost(const octet_plan* plan, int64_t* launches, int64_t* bytes) {
  return guarded([&] {
    check_pointer(kOp, "launches", launches);
    check_pointer(kOp, "bytes", bytes);
    const octet::GatedMlpCost cost = cost_of(plan);
    *launches = cost.launches;
    *bytes = cost.bytes;
  });
}

octet_status octet_make_gated_mlp_forward_plan(const octet_gated_mlp_problem* problem,
                                               const octet_fp8_linear_options* options,
                                               octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_gated_mlp_forward, problem, options,
                 plan);
}

octet_status octet_make_gated_mlp_backward_plan(const octet_gated_mlp_problem* problem,
                                                const octet_fp8_linear_options* options,
                                                octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_gated_mlp_backward, problem, options,
                 plan);
}

octet_status octet_run_gated_mlp_forward(const octet_plan* plan,
                                         const octet_gated_mlp_forward_args* args, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return run_op<octet::GatedMlpForwardPlan>(kForward, read_forward, plan, args, workspace,
                                            workspace_bytes, stream);
}

octet_status octet_run_gated_mlp_backward(const octet_plan* plan,
                                          const octet_gated_mlp_backward_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::GatedMlpBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                             workspace_bytes, stream);
}

}  // extern "C"
