#include "c_api/plan.hpp"

#include <cstddef>

namespace octet::c_api {
namespace {

constexpr const char* kOp = "fp8_linear";
constexpr const char* kForward = "fp8_linear_forward";
constexpr const char* kBackward = "fp8_linear_backward";

static_assert(equal(OCTET_WGRAD_ROWS, WgradBlocks::rows));
static_assert(equal(OCTET_WGRAD_SQUARE, WgradBlocks::square));
static_assert(equal(OCTET_BLOCKWISE, Granularity::blockwise));
static_assert(equal(OCTET_TENSORWISE, Granularity::tensorwise));
static_assert(equal(OCTET_ROWWISE, Granularity::rowwise));
static_assert(equal(OCTET_MXFP8, Granularity::mxfp8));

Fp8LinearProblem read_problem(const octet_fp8_linear_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  check_unused(kOp, "activation", c.activation == OCTET_ACTIVATION_NONE);
  check_unused(kOp, "determinism", c.determinism == 0);
  Fp8LinearProblem problem;
  problem.m = c.m;
  problem.n = c.n;
  problem.k = c.k;
  problem.dtype = read_dtype(kOp, "x", c.dtype);
  read_fp8_training(kOp, c, problem);
  read_granularity(kOp, c, problem);
  problem.bias_dtype = read_optional_dtype(kOp, "bias", c.bias_dtype);
  problem.dbias_dtype = read_optional_dtype(kOp, "dbias", c.dbias_dtype);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

// Reads only what the problem saves.
Fp8LinearSaved read_saved(const char* op, const octet_fp8_linear_saved& c, bool x_t, bool w_t) {
  check_reserved(op, "saved", c);
  Fp8LinearSaved saved;
  if (x_t) saved.x_t = read_quantized(op, "saved.x_t", c.x_t);
  if (w_t) saved.w_t = read_quantized(op, "saved.w_t", c.w_t);
  return saved;
}

Fp8LinearForwardArgs read_forward(const Fp8LinearProblem& problem,
                                  const octet_fp8_linear_forward_args* given) {
  // The first version ended before the bias.
  const auto c =
      read_struct(kForward, "args", given, offsetof(octet_fp8_linear_forward_args, bias));
  Fp8LinearForwardArgs args;
  args.x = read_tensor(kForward, "x", c.x);
  if (problem.weights_quantized) {
    check_reserved(kForward, "weights", c.weights);
    args.weights.w = read_quantized(kForward, "weights.w", c.weights.w);
  } else {
    args.w = read_tensor(kForward, "w", c.w);
  }
  args.y = read_tensor(kForward, "y", c.y);
  args.bias = read_tensor(kForward, "bias", c.bias);
  args.saved = read_saved(kForward, c.saved, problem.training && problem.need_dw,
                          problem.training && problem.need_dx && !problem.weights_quantized);
  return args;
}

Fp8LinearBackwardArgs read_backward(const Fp8LinearProblem& problem,
                                    const octet_fp8_linear_backward_args* given) {
  const auto c =
      read_struct(kBackward, "args", given, offsetof(octet_fp8_linear_backward_args, dbias));
  Fp8LinearBackwardArgs args;
  args.dy = read_tensor(kBackward, "dy", c.dy);
  args.saved = read_saved(kBackward, c.saved, problem.need_dw, problem.need_dx);
  if (problem.need_dx) args.dx = read_tensor(kBackward, "dx", c.dx);
  if (problem.need_dw) args.dw = read_tensor(kBackward, "dw", c.dw);
  if (problem.dbias_dtype) args.dbias = read_tensor(kBackward, "dbias", c.dbias);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_fp8_linear_saved_layout(const octet_fp8_linear_problem* problem,
                                                octet_fp8_linear_saved_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    const octet::Fp8LinearSavedLayout result =
        octet::fp8_linear_saved_layout(read_problem(problem));
    *layout = {sizeof *layout, 0, write_layout(result.x_t), write_layout(result.w_t), {}};
  });
}

octet_status octet_make_fp8_linear_weights_layout(const octet_fp8_linear_problem* problem,
                                                  octet_fp8_linear_weights_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    const octet::Fp8LinearWeightsLayout result =
        octet::fp8_linear_weights_layout(read_problem(problem));
    *layout = {sizeof *layout, 0, write_layout(result.w), write_layout(result.w_t), {}};
  });
}

octet_status octet_make_fp8_linear_forward_plan(const octet_fp8_linear_problem* problem,
                                                const octet_fp8_linear_options* options,
                                                octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_fp8_linear_forward, problem, options,
                 plan);
}

octet_status octet_make_fp8_linear_backward_plan(const octet_fp8_linear_problem* problem,
                                                 const octet_fp8_linear_options* options,
                                                 octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_fp8_linear_backward, problem, options,
                 plan);
}

octet_status octet_run_fp8_linear_forward(const octet_plan* plan,
                                          const octet_fp8_linear_forward_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::Fp8LinearForwardPlan>(kForward, read_forward, plan, args, workspace,
                                             workspace_bytes, stream);
}

octet_status octet_run_fp8_linear_backward(const octet_plan* plan,
                                           const octet_fp8_linear_backward_args* args,
                                           void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::Fp8LinearBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                              workspace_bytes, stream);
}

}  // extern "C"
