// Checks every argument before anything is written, then runs the parts in turn.
#include "dispatch/implementation.hpp"
#include "ops/fp8_linear/state.hpp"

namespace octet {
namespace {

constexpr std::string_view kForward = "fp8_linear_forward";
constexpr std::string_view kBackward = "fp8_linear_backward";

void check_saved(std::string_view op, const Fp8LinearProblem& problem, const Fp8LinearSaved& saved,
                 bool w_t_is_ours) {
  if (saves_x(problem)) {
    check_quantized({op, "saved.x_t"}, saved.x_t, problem.format, problem.k, problem.m,
                    x_t_block(problem), problem.device, Pitch::aligned16, "[K, M]");
  }
  if (saves_w(problem) && w_t_is_ours) {
    check_quantized({op, "saved.w_t"}, saved.w_t, problem.format, problem.k, problem.n,
                    kBlock128x128, problem.device, Pitch::aligned16, "[K, N]");
  }
}

void check_weights(const Fp8LinearProblem& problem, const Fp8LinearForwardArgs& args) {
  if (problem.weights_quantized) {
    check_quantized({kForward, "weights.w"}, args.weights.w, problem.format, problem.n, problem.k,
                    kBlock128x128, problem.device, Pitch::aligned16, "[N, K]");
  } else {
    check_matrix({kForward, "w"}, args.w, problem.dtype, problem.n, problem.k, problem.device,
                 "[N, K]");
  }
}

void check(const Fp8LinearProblem& problem, const Fp8LinearForwardArgs& args) {
  check_matrix({kForward, "x"}, args.x, problem.dtype, problem.m, problem.k, problem.device,
               "[M, K]");
  check_weights(problem, args);
  check_matrix({kForward, "y"}, args.y, problem.dtype, problem.m, problem.n, problem.device,
               "[M, N]");
  check_saved(kForward, problem, args.saved, !problem.weights_quantized);
  const QuantizedView w = problem.weights_quantized ? args.weights.w : QuantizedView(args.w);
  check_no_overlap(kForward, "y", args.y, "x", args.x);
  check_no_overlap(kForward, "y", QuantizedView(args.y), "w", w);
  if (saves_x(problem)) {
    check_no_overlap(kForward, "saved.x_t", args.saved.x_t, "x", QuantizedView(args.x));
    check_no_overlap(kForward, "saved.x_t", args.saved.x_t, "w", w);
    check_no_overlap(kForward, "saved.x_t", args.saved.x_t, "y", QuantizedView(args.y));
  }
  if (saves_w(problem) && !problem.weights_quantized) {
    check_no_overlap(kForward, "saved.w_t", args.saved.w_t, "x", QuantizedView(args.x));
    check_no_overlap(kForward, "saved.w_t", args.saved.w_t, "w", w);
    check_no_overlap(kForward, "saved.w_t", args.saved.w_t, "y", QuantizedView(args.y));
    if (saves_x(problem)) {
      check_no_overlap(kForward, "saved.w_t", args.saved.w_t, "saved.x_t", args.saved.x_t);
    }
  }
}

void check_gradient(const Fp8LinearProblem& problem, const Fp8LinearBackwardArgs& args,
                    const char* name, const TensorView& out) {
  check_no_overlap(kBackward, name, out, "dy", args.dy);
  if (saves_x(problem)) {
    check_no_overlap(kBackward, name, QuantizedView(out), "saved.x_t", args.saved.x_t);
  }
  if (saves_w(problem)) {
    check_no_overlap(kBackward, name, QuantizedView(out), "saved.w_t", args.saved.w_t);
  }
}

void check(const Fp8LinearProblem& problem, const Fp8LinearBackwardArgs& args) {
  check_matrix({kBackward, "dy"}, args.dy, problem.dtype, problem.m, problem.n, problem.device,
               "[M, N]");
  check_saved(kBackward, problem, args.saved, true);
  if (problem.need_dx) {
    check_matrix({kBackward, "dx"}, args.dx, problem.dtype, problem.m, problem.k, problem.device,
                 "[M, K]");
    check_gradient(problem, args, "dx", args.dx);
  }
  if (problem.need_dw) {
    check_matrix({kBackward, "dw"}, args.dw, problem.dw, problem.n, problem.k, problem.device,
                 "[N, K]");
    check_gradient(problem, args, "dw", args.dw);
  }
  if (problem.need_dx && problem.need_dw) {
    check_no_overlap(kBackward, "dx", args.dx, "dw", args.dw);
  }
}

}  // namespace

void run(const Fp8LinearForwardPlan& plan, const Fp8LinearForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kForward, plan.state.get());
  const Fp8LinearProblem& problem = plan.problem.problem;
  check(problem, args);
  check_workspace(kForward, plan.workspace_bytes, workspace);
  const bool writes_w = saves_w(problem) && !problem.weights_quantized;
  check_workspace_apart(kForward, plan.workspace_bytes, workspace,
                        {{"x", args.x},
                         {"w", problem.weights_quantized ? args.weights.w : QuantizedView(args.w)},
                         {"y", args.y},
                         {"saved.x_t", saves_x(problem) ? args.saved.x_t : QuantizedView()},
                         {"saved.w_t", writes_w ? args.saved.w_t : QuantizedView()}});

  const auto& state = *static_cast<const ForwardState*>(plan.state.get());
  WorkspaceCarver carver(workspace);
  void* x_memory = carver.take(state.x_layout.bytes);
  void* w_memory = carver.take(state.w_layout.bytes);
  const QuantizedView x = state.x_layout.view(x_memory, problem.device);
  QuantizedView w = args.weights.w;
  run(state.quantize_x, {args.x, x, args.saved.x_t}, carver.rest(), stream);
  if (state.quantize_w) {
    w = state.w_layout.view(w_memory, problem.device);
    run(*state.quantize_w, {args.w, w, args.saved.w_t}, carver.rest(), stream);
  }
  run(state.product, {x, w, args.y}, carver.rest(), stream);
}

void run(const Fp8LinearBackwardPlan& plan, const Fp8LinearBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kBackward, plan.state.get());
  const Fp8LinearProblem& problem = plan.problem.problem;
  check(problem, args);
  check_workspace(kBackward, plan.workspace_bytes, workspace);
  check_workspace_apart(kBackward, plan.workspace_bytes, workspace,
                        {{"dy", args.dy},
                         {"dx", problem.need_dx ? args.dx : TensorView()},
                         {"dw", problem.need_dw ? args.dw : TensorView()},
                         {"saved.x_t", saves_x(problem) ? args.saved.x_t : QuantizedView()},
                         {"saved.w_t", saves_w(problem) ? args.saved.w_t : QuantizedView()}});

  const auto& state = *static_cast<const BackwardState*>(plan.state.get());
  WorkspaceCarver carver(workspace);
  QuantizedView dy;
  QuantizedView dy_t;
  if (void* memory = carver.take(state.dy_layout.bytes)) {
    dy = state.dy_layout.view(memory, problem.device);
  }
  if (void* memory = carver.take(state.dy_t_layout.bytes)) {
    dy_t = state.dy_t_layout.view(memory, problem.device);
  }
  run(state.quantize_dy, {args.dy, dy, dy_t}, carver.rest(), stream);
  if (state.dx_product)
    run(*state.dx_product, {dy, args.saved.w_t, args.dx}, carver.rest(), stream);
  if (state.dw_product)
    run(*state.dw_product, {dy_t, args.saved.x_t, args.dw}, carver.rest(), stream);
}

}  // namespace octet
