// Runs the parts in order, after the arguments of the call are checked.
#include "core/views.hpp"
#include "core/workspace.hpp"
#include "dispatch/implementation.hpp"
#include "ops/moe_mlp/parts.hpp"

namespace octet {
namespace {

// Views of the pieces of the workspace, in the order of the plan's state.
class Pieces {
 public:
  Pieces(Device device, const Workspace& workspace) : device_(device), carver_(workspace) {}

  template <class Layout>
  QuantizedView quantized(const Layout& layout) {
    if (layout.bytes == 0) return {};
    return layout.view(carver_.take(layout.bytes), device_);
  }
  TensorView matrix(std::size_t bytes, Dtype dtype, std::int64_t rows, std::int64_t cols) {
    if (bytes == 0) return {};
    return make_view(carver_.take(bytes), dtype, {rows, cols}, device_);
  }
  void* take(std::size_t bytes) { return carver_.take(bytes); }
  Workspace rest() const { return carver_.rest(); }

 private:
  Device device_;
  WorkspaceCarver carver_;
};

// All elements of a dense matrix in one column.
TensorView as_slots(const TensorView& dense) {
  return make_view(dense.data, dense.dtype, {dense.rows() * dense.cols(), 1}, dense.device);
}

}  // namespace

void run(const MoeMlpForwardPlan& plan, const MoeMlpForwardArgs& given, Workspace workspace,
         void* stream) {
  check_plan("moe_mlp_forward", plan.state.get());
  const MoeMlpProblem& problem = plan.problem;
  const MoeMlpForwardArgs args = check_call(plan, given, workspace);

  const auto& state = *static_cast<const MoeMlpForwardState*>(plan.state.get());
  const std::int64_t rows = buffer_rows(problem);
  Pieces pieces(problem.device, workspace);
  const MoeMlpSaved saved =
      problem.training
          ? args.saved
          : MoeMlpSavedLayout{problem, state.saved_bytes}.view(pieces.take(state.saved_bytes));
  const TensorView weights = problem.routing ? pieces.matrix(state.weights_bytes, Dtype::f32,
                                                             problem.tokens, problem.top_k)
                                             : args.weights;
  const QuantizedView x = pieces.quantized(state.x);
  const QuantizedView w_gate_up =
      problem.weights_quantized ? args.experts.gate_up.w : pieces.quantized(state.w_gate_up);
  const QuantizedView h = pieces.quantized(state.h);
  const QuantizedView w_down =
      problem.weights_quantized ? args.experts.down.w : pieces.quantized(state.w_down);
  const TensorView y_rows = pieces.matrix(state.rows_bytes, problem.dtype, rows, problem.k);
  const Workspace scratch = pieces.rest();
  const auto run_part = [&](const auto& part, const auto& part_args) {
    run_plan(part, part_args, scratch, stream);
  };

  // Routing and maps
  const TensorView indices = problem.routing ? saved.indices : args.indices;
  if (state.route) {
    const TensorView scores = problem.training ? saved.scores : TensorView();
    run_part(*state.route, MoeRouteForwardArgs{args.logits, args.bias, indices, weights, scores});
  }
  run_part(state.maps, MoeMapsArgs{indices, saved.row_of, saved.source, saved.sizes, saved.table,
                                   saved.status});
  run_part(state.row_weight, MoePermuteForwardArgs{as_slots(weights),
                                                   {},
                                                   as_slots(saved.row_of),
                                                   saved.source,
                                                   as_column(saved.row_weight),
                                                   {}});

  // Gate and Up
  run_part(state.quantize_x, QuantizeArgs{args.x, x, saved.x_t, saved.table, saved.source});
  if (state.quantize_w_gate_up) {
    run_part(*state.quantize_w_gate_up, QuantizeArgs{args.w_gate_up, w_gate_up, saved.w_gate_up_t});
  }
  run_part(state.gate_up, GroupedGemmArgs{x, w_gate_up, saved.gate_up, saved.table});
  const Halves halves(saved.gate_up);
  run_part(state.activation,
           GatedActivationForwardArgs{
               halves.gate, halves.up, saved.row_weight, {}, {h, saved.h_t}, saved.table});

  // Down, and back to tokens
  if (state.quantize_w_down) {
    run_part(*state.quantize_w_down, QuantizeArgs{args.w_down, w_down, saved.w_down_t});
  }
  run_part(state.down, GroupedGemmArgs{h, w_down, y_rows, saved.table});
  run_part(state.unpermute, MoeUnpermuteForwardArgs{y_rows, {}, saved.row_of, args.y});
}

void run(const MoeMlpBackwardPlan& plan, const MoeMlpBackwardArgs& given, Workspace workspace,
         void* stream) {
  check_plan("moe_mlp_backward", plan.state.get());
  const MoeMlpProblem& problem = plan.problem;
  const MoeMlpBackwardArgs args = check_call(plan, given, workspace);

  const auto& state = *static_cast<const MoeMlpBackwardState*>(plan.state.get());
  const MoeMlpSaved& saved = args.saved;
  const std::int64_t rows = buffer_rows(problem);
  Pieces pieces(problem.device, workspace);
  const QuantizedView dy = pieces.quantized(state.dy.rows);
  const QuantizedView dy_t = pieces.quantized(state.dy.token_blocks);
  const TensorView dh = pieces.matrix(state.dh_bytes, problem.dtype, rows, problem.f);
  const QuantizedView d_gate_up = pieces.quantized(state.d_gate_up.rows);
  const QuantizedView d_gate_up_t = pieces.quantized(state.d_gate_up.token_blocks);
  const TensorView d_row_weight = pieces.matrix(state.d_row_weight_bytes, Dtype::f32, rows, 1);
  const TensorView dweights = problem.routing ? pieces.matrix(state.dweights_bytes, Dtype::f32,
                                                              problem.tokens, problem.top_k)
                                              : args.dweights;
  const TensorView dx_rows = pieces.matrix(state.rows_bytes, problem.dtype, rows, problem.k);
  const Workspace scratch = pieces.rest();
  const auto run_part = [&](const auto& part, const auto& part_args) {
    run_plan(part, part_args, scratch, stream);
  };

  // Down
  run_part(state.quantize_dy, QuantizeArgs{args.dy, dy, dy_t, saved.table, saved.source});
  run_part(state.dh, GroupedGemmArgs{dy, saved.w_down_t, dh, saved.table});
  if (state.dw_down) {
    run_part(*state.dw_down, GroupedGemmArgs{dy_t, saved.h_t, args.dw_down, saved.table});
  }

  // Gate and Up
  const Halves halves(saved.gate_up);
  GatedActivationBackwardArgs activation;
  activation.dy = dh;
  activation.gate = halves.gate;
  activation.up = halves.up;
  activation.row_weight = saved.row_weight;
  activation.fp8 = {d_gate_up, d_gate_up_t};
  activation.d_row_weight = make_view(d_row_weight.data, Dtype::f32, {rows}, problem.device);
  activation.table = saved.table;
  run_part(state.activation, activation);
  if (state.dw_gate_up) {
    run_part(*state.dw_gate_up,
             GroupedGemmArgs{d_gate_up_t, saved.x_t, args.dw_gate_up, saved.table});
  }
  if (state.dx) {
    run_part(*state.dx, GroupedGemmArgs{d_gate_up, saved.w_gate_up_t, dx_rows, saved.table});
    run_part(*state.unpermute, MoeUnpermuteForwardArgs{dx_rows, {}, saved.row_of, args.dx});
  }

  // The weights of the slots, and the router
  run_part(state.dweights, MoePermuteBackwardArgs{
                               d_row_weight, {}, as_slots(saved.row_of), as_slots(dweights), {}});
  if (state.route) {
    run_part(*state.route, MoeRouteBackwardArgs{saved.scores, saved.indices, dweights, args.dscores,
                                                args.dlogits});
  }
}

}  // namespace octet
