#include "c_api/plan.hpp"

#include <cstddef>

namespace octet::c_api {
namespace {

constexpr const char* kOp = "gated_activation";
constexpr const char* kForward = "gated_activation_forward";
constexpr const char* kBackward = "gated_activation_backward";

static_assert(equal(OCTET_GATE_SILU, GateActivation::silu));
static_assert(equal(OCTET_GATE_GELU_TANH, GateActivation::gelu_tanh));
static_assert(equal(OCTET_GATE_GELU_ERF, GateActivation::gelu_erf));
static_assert(equal(OCTET_GATE_RELU_SQUARED, GateActivation::relu_squared));

GatedActivationProblem read_problem(const octet_gated_activation_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  GatedActivationProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.dtype = read_dtype(kOp, "gate", c.dtype);
  problem.activation = static_cast<GateActivation>(c.activation);
  problem.row_weight = read_flag(kOp, "row_weight", c.row_weight);
  problem.fp8 = read_fp8_output(kOp, c.fp8);
  problem.groups = c.groups;
  problem.tail = static_cast<GroupTail>(c.tail);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

GatedActivationForwardArgs read_forward(const GatedActivationProblem& problem,
                                        const octet_gated_activation_forward_args* given) {
  const auto c =
      read_struct(kForward, "args", given, offsetof(octet_gated_activation_forward_args, table));
  GatedActivationForwardArgs args;
  args.gate = read_tensor(kForward, "gate", c.gate);
  args.up = read_tensor(kForward, "up", c.up);
  if (problem.row_weight) args.row_weight = read_tensor(kForward, "row_weight", c.row_weight);
  if (problem.fp8) {
    args.fp8 = read_fp8_copies(kForward, *problem.fp8, c.fp8);
  } else {
    args.y = read_tensor(kForward, "y", c.y);
  }
  if (problem.groups > 0) args.table = read_tensor(kForward, "table", c.table);
  return args;
}

GatedActivationBackwardArgs read_backward(const GatedActivationProblem& problem,
                                          const octet_gated_activation_backward_args* given) {
  const auto c =
      read_struct(kBackward, "args", given, offsetof(octet_gated_activation_backward_args, table));
  GatedActivationBackwardArgs args;
  args.dy = read_tensor(kBackward, "dy", c.dy);
  args.gate = read_tensor(kBackward, "gate", c.gate);
  args.up = read_tensor(kBackward, "up", c.up);
  if (problem.row_weight) {
    args.row_weight = read_tensor(kBackward, "row_weight", c.row_weight);
    args.d_row_weight = read_tensor(kBackward, "d_row_weight", c.d_row_weight);
  }
  if (problem.fp8) {
    args.fp8 = read_fp8_copies(kBackward, *problem.fp8, c.fp8);
  } else {
    args.dgate = read_tensor(kBackward, "dgate", c.dgate);
    args.dup = read_tensor(kBackward, "dup", c.dup);
  }
  if (problem.groups > 0) args.table = read_tensor(kBackward, "table", c.table);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_gated_activation_forward_plan(const octet_gated_activation_problem* problem,
                                                      const octet_plan_options* options,
                                                      octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_gated_activation_forward, problem,
                 options, plan);
}

octet_status octet_make_gated_activation_backward_plan(
    const octet_gated_activation_problem* problem, const octet_plan_options* options,
    octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_gated_activation_backward, problem,
                 options, plan);
}

octet_status octet_run_gated_activation_forward(const octet_plan* plan,
                                                const octet_gated_activation_forward_args* args,
                                                void* workspace, size_t workspace_bytes,
                                                void* stream) {
  return run_op<octet::GatedActivationForwardPlan>(kForward, read_forward, plan, args, workspace,
                                                   workspace_bytes, stream);
}

octet_status octet_run_gated_activation_backward(const octet_plan* plan,
                                                 const octet_gated_activation_backward_args* args,
                                                 void* workspace, size_t workspace_bytes,
                                                 void* stream) {
  return run_op<octet::GatedActivationBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                                    workspace_bytes, stream);
}

}  // extern "C"
