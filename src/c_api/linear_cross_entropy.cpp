#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "linear_cross_entropy";
constexpr const char* kForward = "linear_cross_entropy_forward";
constexpr const char* kBackward = "linear_cross_entropy_backward";

static_assert(equal(OCTET_LOSS_NONE, LossReduction::none));
static_assert(equal(OCTET_LOSS_SUM, LossReduction::sum));
static_assert(equal(OCTET_LOSS_MEAN, LossReduction::mean));

LinearCrossEntropyProblem read_problem(const octet_linear_cross_entropy_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  LinearCrossEntropyProblem problem;
  problem.m = c.m;
  problem.v = c.v;
  problem.k = c.k;
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  problem.target_dtype = read_dtype(kOp, "targets", c.target_dtype);
  problem.ignore_index = c.ignore_index;
  problem.reduction = static_cast<LossReduction>(c.reduction);
  problem.fp8 = read_flag(kOp, "fp8", c.fp8);
  read_fp8_training(kOp, c, problem);
  problem.max_chunk_rows = c.max_chunk_rows;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

// The tensors that both passes have. The C++ API ignores what the problem does not use; what is not
// there is not read.
template <class Args, class CArgs>
Args read_args(const char* pass, const LinearCrossEntropyProblem& problem, const CArgs& c,
               bool gradient) {
  Args args;
  args.x = read_tensor(pass, "x", c.x);
  if (problem.weights_quantized) {
    check_reserved(pass, "weights", c.weights);
    args.weights.w = read_quantized(pass, "weights.w", c.weights.w);
    if (gradient && problem.need_dx) {
      args.weights.w_t = read_quantized(pass, "weights.w_t", c.weights.w_t);
    }
  } else {
    args.w = read_tensor(pass, "w", c.w);
  }
  args.targets = read_tensor(pass, "targets", c.targets);
  if (gradient) args.loss_grad = read_tensor(pass, "loss_grad", c.loss_grad);
  args.lse = read_tensor(pass, "lse", c.lse);
  if (gradient && problem.need_dx) args.dx = read_tensor(pass, "dx", c.dx);
  if (gradient && problem.need_dw) args.dw = read_tensor(pass, "dw", c.dw);
  return args;
}

LinearCrossEntropyForwardArgs read_forward(const LinearCrossEntropyProblem& problem,
                                           const octet_linear_cross_entropy_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  const bool gradient = problem.training && problem.reduction != LossReduction::none;
  auto args = read_args<LinearCrossEntropyForwardArgs>(kForward, problem, c, gradient);
  args.loss = read_tensor(kForward, "loss", c.loss);
  return args;
}

LinearCrossEntropyBackwardArgs read_backward(
    const LinearCrossEntropyProblem& problem,
    const octet_linear_cross_entropy_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  return read_args<LinearCrossEntropyBackwardArgs>(kBackward, problem, c, true);
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_linear_cross_entropy_forward_plan(
    const octet_linear_cross_entropy_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_linear_cross_entropy_forward, problem,
                 options, plan);
}

octet_status octet_make_linear_cross_entropy_backward_plan(
    const octet_linear_cross_entropy_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_linear_cross_entropy_backward, problem,
                 options, plan);
}

octet_status octet_run_linear_cross_entropy_forward(
    const octet_plan* plan, const octet_linear_cross_entropy_forward_args* args, void* workspace,
    size_t workspace_bytes, void* stream) {
  return run_op<octet::LinearCrossEntropyForwardPlan>(kForward, read_forward, plan, args, workspace,
                                                      workspace_bytes, stream);
}

octet_status octet_run_linear_cross_entropy_backward(
    const octet_plan* plan, const octet_linear_cross_entropy_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream) {
  return run_op<octet::LinearCrossEntropyBackwardPlan>(kBackward, read_backward, plan, args,
                                                       workspace, workspace_bytes, stream);
}

}  // extern "C"
