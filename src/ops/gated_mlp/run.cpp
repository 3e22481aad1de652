// Runs the parts in order, after the arguments of the call are checked.
#include "dispatch/implementation.hpp"
#include "core/views.hpp"
#include "ops/gated_mlp/state.hpp"

namespace octet {
namespace {

// Views of the pieces of the workspace, in the order of the plan's state.
class Pieces {
 public:
  Pieces(const GatedMlpProblem& problem, const Workspace& workspace)
      : problem_(problem), carver_(workspace) {}

  QuantizedView quantized(const QuantizedLayout& layout) {
    if (layout.bytes == 0) return {};
    return layout.view(carver_.take(layout.bytes), problem_.device);
  }
  // [M, cols], or `given` if the workspace has none.
  TensorView matrix(std::size_t bytes, std::int64_t cols, const TensorView& given = {}) {
    if (bytes == 0) return given;
    return make_view(carver_.take(bytes), problem_.dtype, {problem_.m, cols}, problem_.device);
  }
  // FP8 copies in the workspace, or two views of a plain tensor.
  Fp8Copies both_ways(const QuantizedLayout& layout, const QuantizedLayout& transposed_layout,
                      const TensorView& plain) {
    if (problem_.fp8) return {quantized(layout), quantized(transposed_layout)};
    if (plain.data == nullptr) return {};
    return {plain, transposed(plain)};
  }
  Workspace rest() const { return carver_.rest(); }

 private:
  const GatedMlpProblem& problem_;
  WorkspaceCarver carver_;
};

// Weights that need no cast: quantised by the caller, or plain.
QuantizedView given_weights(const GatedMlpProblem& problem, const TensorView& plain,
                            const Fp8LinearWeights& quantized) {
  return problem.fp8 ? quantized.w : plain;
}

}  // namespace

void run(const GatedMlpForwardPlan& plan, const GatedMlpForwardArgs& given, Workspace workspace,
         void* stream) {
  check_plan("gated_mlp_forward", plan.state.get());
  const GatedMlpProblem& problem = plan.problem;
  const GatedMlpForwardArgs args = check_call(plan, given, workspace);

  const auto& state = *static_cast<const GatedMlpForwardState*>(plan.state.get());
  Pieces pieces(problem, workspace);
  const QuantizedView x = problem.fp8 ? pieces.quantized(state.x_layout) : args.x;
  const QuantizedView w_gate_up =
      state.quantize_w_gate_up ? pieces.quantized(state.w_gate_up_layout)
                               : given_weights(problem, args.w_gate_up, args.weights.gate_up);
  const QuantizedView w_down = state.quantize_w_down
                                   ? pieces.quantized(state.w_down_layout)
                                   : given_weights(problem, args.w_down, args.weights.down);
  const TensorView gate_up = pieces.matrix(state.gate_up_bytes, 2 * problem.f, args.saved.gate_up);
  const TensorView h =
      pieces.matrix(state.h_bytes, problem.f, problem.down ? args.saved.h : args.h);
  const Fp8Copies h_fp8 =
      problem.down ? Fp8Copies{pieces.quantized(state.h_layout), args.saved.h_t} : args.h_fp8;
  const Workspace scratch = pieces.rest();

  const auto quantize = [&](const std::optional<QuantizePlan>& part, const TensorView& input,
                            const Fp8Copies& copies) {
    if (part) run_plan(*part, QuantizeArgs{input, copies.out, copies.transposed}, scratch, stream);
  };
  quantize(state.quantize_x, args.x, {x, args.saved.x_t});
  quantize(state.quantize_w_gate_up, args.w_gate_up, {w_gate_up, args.saved.w_gate_up_t});
  run_plan(state.gate_up, GemmArgs{x, w_gate_up, gate_up}, scratch, stream);

  GatedActivationForwardArgs activation;
  const Halves halves(gate_up);
  activation.gate = halves.gate;
  activation.up = halves.up;
  if (!problem.fp8 || state.quantize_h) {
    activation.y = h;
  } else {
    activation.fp8 = h_fp8;
  }
  run_plan(state.activation, activation, scratch, stream);
  quantize(state.quantize_h, h, h_fp8);
  quantize(state.quantize_w_down, args.w_down, {w_down, args.saved.w_down_t});
  if (state.down) {
    run_plan(*state.down, GemmArgs{problem.fp8 ? h_fp8.out : QuantizedView(h), w_down, args.y},
             scratch, stream);
  }
}

void run(const GatedMlpBackwardPlan& plan, const GatedMlpBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("gated_mlp_backward", plan.state.get());
  const GatedMlpProblem& problem = plan.problem;
  check_call(plan, args, workspace);

  const auto& state = *static_cast<const GatedMlpBackwardState*>(plan.state.get());
  const GatedMlpSaved& saved = args.saved;
  const bool fp8 = problem.fp8;
  Pieces pieces(problem, workspace);
  const Fp8Copies dy =
      pieces.both_ways(state.dy_layout, state.dy_t_layout, problem.down ? args.dy : TensorView());
  const TensorView dh = pieces.matrix(state.dh_bytes, problem.f, args.dh);
  const TensorView plain = pieces.matrix(state.d_gate_up_bytes, 2 * problem.f);
  const Fp8Copies d_gate_up =
      pieces.both_ways(state.d_gate_up_layout, state.d_gate_up_t_layout, plain);
  const Workspace scratch = pieces.rest();

  const auto multiply = [&](const GemmPlan& part, const QuantizedView& a, const QuantizedView& b,
                            const TensorView& d) {
    run_plan(part, GemmArgs{a, b, d}, scratch, stream);
  };
  if (state.quantize_dy) {
    run_plan(*state.quantize_dy, QuantizeArgs{args.dy, dy.out, dy.transposed}, scratch, stream);
  }
  if (state.dh) multiply(*state.dh, dy.out, fp8 ? saved.w_down_t : transposed(args.w_down), dh);
  if (state.dw_down) {
    multiply(*state.dw_down, dy.transposed, fp8 ? saved.h_t : transposed(saved.h), args.dw_down);
  }

  GatedActivationBackwardArgs activation;
  const Halves halves(saved.gate_up);
  activation.dy = dh;
  activation.gate = halves.gate;
  activation.up = halves.up;
  if (!problem.fp8 || state.quantize_d_gate_up) {
    const Halves d_halves(plain);
    activation.dgate = d_halves.gate;
    activation.dup = d_halves.up;
  } else {
    activation.fp8 = d_gate_up;
  }
  run_plan(state.activation, activation, scratch, stream);
  if (state.quantize_d_gate_up) {
    run_plan(*state.quantize_d_gate_up, QuantizeArgs{plain, d_gate_up.out, d_gate_up.transposed},
             scratch, stream);
  }
  if (state.dx) {
    multiply(*state.dx, d_gate_up.out, fp8 ? saved.w_gate_up_t : transposed(args.w_gate_up),
             args.dx);
  }
  if (state.dw_gate_up) {
    multiply(*state.dw_gate_up, d_gate_up.transposed, fp8 ? saved.x_t : transposed(saved.x),
             args.dw_gate_up);
  }
}

}  // namespace octet
