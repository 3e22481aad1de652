#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "fp8_grouped_linear";
constexpr const char* kForward = "fp8_grouped_linear_forward";
constexpr const char* kBackward = "fp8_grouped_linear_backward";

Fp8GroupedLinearProblem read_problem(const octet_fp8_grouped_linear_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  Fp8GroupedLinearProblem problem;
  problem.groups = c.groups;
  problem.rows = c.rows;
  problem.n = c.n;
  problem.k = c.k;
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  read_fp8_training(kOp, c, problem);
  problem.tail = static_cast<GroupTail>(c.tail);
  problem.expected_rows = c.expected_rows;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

// Reads only what the problem saves.
Fp8GroupedLinearSaved read_saved(const char* op, const octet_fp8_linear_saved& c, bool x_t,
                                 bool w_t) {
  check_reserved(op, "saved", c);
  Fp8GroupedLinearSaved saved;
  if (x_t) saved.x_t = read_quantized(op, "saved.x_t", c.x_t);
  if (w_t) saved.w_t = read_quantized(op, "saved.w_t", c.w_t);
  return saved;
}

Fp8GroupedLinearForwardArgs read_forward(const Fp8GroupedLinearProblem& problem,
                                         const octet_fp8_grouped_linear_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  Fp8GroupedLinearForwardArgs args;
  args.x = read_tensor(kForward, "x", c.x);
  if (problem.weights_quantized) {
    check_reserved(kForward, "weights", c.weights);
    args.weights.w = read_quantized(kForward, "weights.w", c.weights.w);
  } else {
    args.w = read_tensor(kForward, "w", c.w);
  }
  args.y = read_tensor(kForward, "y", c.y);
  args.saved = read_saved(kForward, c.saved, problem.training && problem.need_dw,
                          problem.training && problem.need_dx && !problem.weights_quantized);
  args.table = read_tensor(kForward, "table", c.table);
  return args;
}

Fp8GroupedLinearBackwardArgs read_backward(const Fp8GroupedLinearProblem& problem,
                                           const octet_fp8_grouped_linear_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  Fp8GroupedLinearBackwardArgs args;
  args.dy = read_tensor(kBackward, "dy", c.dy);
  args.saved = read_saved(kBackward, c.saved, problem.need_dw, problem.need_dx);
  if (problem.need_dx) args.dx = read_tensor(kBackward, "dx", c.dx);
  if (problem.need_dw) args.dw = read_tensor(kBackward, "dw", c.dw);
  args.table = read_tensor(kBackward, "table", c.table);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_fp8_grouped_linear_saved_layout(
    const octet_fp8_grouped_linear_problem* problem,
    octet_fp8_grouped_linear_saved_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    const auto result = octet::fp8_grouped_linear_saved_layout(read_problem(problem));
    *layout = {
        sizeof *layout, 0, write_layout(result.x_t, true), write_layout(result.w_t, false), {}};
  });
}

octet_status octet_make_fp8_grouped_linear_weights_layout(
    const octet_fp8_grouped_linear_problem* problem,
    octet_fp8_grouped_linear_weights_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    const auto result = octet::fp8_grouped_linear_weights_layout(read_problem(problem));
    *layout = {
        sizeof *layout, 0, write_layout(result.w, false), write_layout(result.w_t, false), {}};
  });
}

octet_status octet_make_fp8_grouped_linear_forward_plan(
    const octet_fp8_grouped_linear_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_fp8_grouped_linear_forward, problem,
                 options, plan);
}

octet_status octet_make_fp8_grouped_linear_backward_plan(
    const octet_fp8_grouped_linear_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_fp8_grouped_linear_backward, problem,
                 options, plan);
}

octet_status octet_run_fp8_grouped_linear_forward(const octet_plan* plan,
                                                  const octet_fp8_grouped_linear_forward_args* args,
                                                  void* workspace, size_t workspace_bytes,
                                                  void* stream) {
  return run_op<octet::Fp8GroupedLinearForwardPlan>(kForward, read_forward, plan, args, workspace,
                                                    workspace_bytes, stream);
}

octet_status octet_run_fp8_grouped_linear_backward(
    const octet_plan* plan, const octet_fp8_grouped_linear_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream) {
  return run_op<octet::Fp8GroupedLinearBackwardPlan>(kBackward, read_backward, plan, args,
                                                     workspace, workspace_bytes, stream);
}

}  // extern "C"
