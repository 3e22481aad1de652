// Checks every argument before anything is written, then runs the parts, which are not checked
// again.
#include "core/call.hpp"
#include "core/workspace.hpp"
#include "dispatch/implementation.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kForward = "fp8_linear_forward";
constexpr std::string_view kBackward = "fp8_linear_backward";

QuantizedForm x_t_form(const Fp8LinearProblem& problem) {
  return {problem.format, problem.k, problem.m, x_t_block(problem), "[K, M]"};
}
QuantizedForm w_t_form(const Fp8LinearProblem& problem) {
  return {problem.format, problem.k, problem.n, weight_block(problem), "[K, N]"};
}

void check(const Fp8LinearForwardPlan& plan, const Fp8LinearForwardArgs& args,
           const Workspace& workspace) {
  const Fp8LinearProblem& problem = plan.problem;
  const auto [m, n, k] = std::array{problem.m, problem.n, problem.k};
  Call call(kForward, problem.device);
  call.reads("x", args.x, MatrixForm{problem.dtype, m, k, "[M, K]"});
  if (problem.weights_quantized) {
    call.reads("weights.w", args.weights.w,
               QuantizedForm{problem.format, n, k, weight_block(problem), "[N, K]"});
  } else {
    call.reads("w", args.w, MatrixForm{problem.dtype, n, k, "[N, K]"});
  }
  if (problem.bias_dtype) {
    call.reads("bias", args.bias, TensorForm(*problem.bias_dtype, {n}, "[N]"));
  } else if (args.bias.data != nullptr || args.bias.rank != 0) {
    refuse_argument(kForward, ": a bias is given, but the problem has no bias_dtype");
  }
  call.writes("y", args.y, MatrixForm{problem.dtype, m, n, "[M, N]"});
  if (saves_x(problem)) call.writes("saved.x_t", args.saved.x_t, x_t_form(problem));
  if (saves_w(problem) && !problem.weights_quantized) {
    call.writes("saved.w_t", args.saved.w_t, w_t_form(problem));
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

void check(const Fp8LinearBackwardPlan& plan, const Fp8LinearBackwardArgs& args,
           const Workspace& workspace) {
  const Fp8LinearProblem& problem = plan.problem;
  const auto [m, n, k] = std::array{problem.m, problem.n, problem.k};
  Call call(kBackward, problem.device);
  call.reads("dy", args.dy, MatrixForm{problem.dtype, m, n, "[M, N]"});
  if (saves_x(problem)) call.reads("saved.x_t", args.saved.x_t, x_t_form(problem));
  if (saves_w(problem)) call.reads("saved.w_t", args.saved.w_t, w_t_form(problem));
  if (problem.need_dx) call.writes("dx", args.dx, MatrixForm{problem.dtype, m, k, "[M, K]"});
  call.check_apart();  // errors of dx come before those of dw
  if (problem.need_dw) call.writes("dw", args.dw, MatrixForm{problem.dw_dtype, n, k, "[N, K]"});
  if (problem.dbias_dtype) {
    call.writes("dbias", args.dbias, TensorForm(*problem.dbias_dtype, {n}, "[N]"));
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

}  // namespace

void run(const Fp8LinearForwardPlan& plan, const Fp8LinearForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kForward, plan.state.get());
  check(plan, args, workspace);

  const auto& state = *static_cast<const Fp8LinearForwardState*>(plan.state.get());
  WorkspaceCarver carver(workspace);
  void* x_memory = carver.take(state.x_layout.bytes);
  void* w_memory = carver.take(state.w_layout.bytes);
  const Device device = plan.problem.device;
  const QuantizedView x = state.x_layout.view(x_memory, device);
  QuantizedView w = args.weights.w;
  run_plan(state.quantize_x, QuantizeArgs{args.x, x, args.saved.x_t}, carver.rest(), stream);
  if (state.quantize_w) {
    w = state.w_layout.view(w_memory, device);
    run_plan(*state.quantize_w, QuantizeArgs{args.w, w, args.saved.w_t}, carver.rest(), stream);
  }
  run_plan(state.product, GemmArgs{x, w, args.y, args.bias}, carver.rest(), stream);
}

void run(const Fp8LinearBackwardPlan& plan, const Fp8LinearBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kBackward, plan.state.get());
  check(plan, args, workspace);

  const auto& state = *static_cast<const Fp8LinearBackwardState*>(plan.state.get());
  const Device device = plan.problem.device;
  WorkspaceCarver carver(workspace);
  QuantizedView dy;
  QuantizedView dy_t;
  if (void* memory = carver.take(state.dy_layout.bytes)) {
    dy = state.dy_layout.view(memory, device);
  }
  if (void* memory = carver.take(state.dy_t_layout.bytes)) {
    dy_t = state.dy_t_layout.view(memory, device);
  }
  const Workspace scratch = carver.rest();
  if (state.dbias) state.dbias->run(args.dy, args.dbias, scratch, stream);
  if (state.quantize_dy) {
    run_plan(*state.quantize_dy, QuantizeArgs{args.dy, dy, dy_t}, scratch, stream);
  }
  if (state.dx_product) {
    run_plan(*state.dx_product, GemmArgs{dy, args.saved.w_t, args.dx}, scratch, stream);
  }
  if (state.dw_product) {
    run_plan(*state.dw_product, GemmArgs{dy_t, args.saved.x_t, args.dw}, scratch, stream);
  }
}

}  // namespace octet
