// Every argument of a call, before anything is written. Each is named once: checked by itself there
// and against all the others at the end.
#include "core/checks.hpp"
#include "ops/gated_mlp/state.hpp"

#include <vector>

namespace octet {
namespace {

class Call {
 public:
  Call(std::string_view op, const GatedMlpProblem& problem) : op_(op), problem_(problem) {}

  void reads(std::string_view name, const TensorView& view, std::int64_t rows, std::int64_t cols,
             std::string_view wanted) {
    check_matrix({op_, name}, view, problem_.dtype, rows, cols, problem_.device, wanted);
    inputs_.push_back({name, view});
  }
  void reads(std::string_view name, const QuantizedView& view, const QuantizedLayout& layout,
             std::string_view wanted) {
    check_layout(name, view, layout, wanted);
    inputs_.push_back({name, view});
  }
  void writes(std::string_view name, const TensorView& view, Dtype dtype, std::int64_t rows,
              std::int64_t cols, std::string_view wanted) {
    check_matrix({op_, name}, view, dtype, rows, cols, problem_.device, wanted);
    outputs_.push_back({name, view});
  }
  // Nothing is written where the layout has no bytes.
  void writes(std::string_view name, const QuantizedView& view, const QuantizedLayout& layout,
              std::string_view wanted) {
    if (layout.bytes == 0) return;
    check_layout(name, view, layout, wanted);
    outputs_.push_back({name, view});
  }

  void check_apart(std::size_t workspace_bytes, const Workspace& workspace) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      for (const NamedView& input : inputs_) check_pair(outputs_[i], input);
      for (std::size_t j = 0; j < i; ++j) check_pair(outputs_[i], outputs_[j]);
    }
    check_workspace(op_, workspace_bytes, workspace);
    for (const auto* views : {&inputs_, &outputs_}) {
      for (const NamedView& view : *views) {
        check_workspace_apart(op_, workspace_bytes, workspace, {view});
      }
    }
  }

 private:
  void check_layout(std::string_view name, const QuantizedView& view, const QuantizedLayout& layout,
                    std::string_view wanted) const {
    check_quantized({op_, name}, view, layout.dtype, layout.rows, layout.cols, layout.block,
                    problem_.device, Pitch::aligned16, wanted);
  }
  void check_pair(const NamedView& out, const NamedView& other) const {
    check_no_overlap(op_, out.name, out.view, other.name, other.view);
  }

  std::string_view op_;
  const GatedMlpProblem& problem_;
  std::vector<NamedView> inputs_;
  std::vector<NamedView> outputs_;
};

}  // namespace

void check_call(const GatedMlpForwardPlan& plan, const GatedMlpForwardArgs& args,
                const Workspace& workspace) {
  const GatedMlpProblem& problem = plan.problem.problem;
  const std::int64_t m = problem.m;
  const std::int64_t f = problem.f;
  const std::int64_t k = problem.k;
  Call call("gated_mlp_forward", problem);
  call.reads("x", args.x, m, k, "[M, K]");
  if (problem.weights_quantized) {
    call.reads("weights.gate_up.w", args.weights.gate_up.w,
               out_layout(cast_of_w(gate_up_layer(problem))), "[2F, K]");
  } else {
    call.reads("w_gate_up", args.w_gate_up, 2 * f, k, "[2F, K]");
  }
  if (problem.down && problem.weights_quantized) {
    call.reads("weights.down.w", args.weights.down.w, out_layout(cast_of_w(down_layer(problem))),
               "[K, F]");
  } else if (problem.down) {
    call.reads("w_down", args.w_down, k, f, "[K, F]");
  }

  const QuantizeProblem h_cast = cast_of_x(down_layer(problem));
  if (problem.down) {
    call.writes("y", args.y, problem.dtype, m, k, "[M, K]");
  } else if (problem.fp8) {
    call.writes("h_fp8.out", args.h_fp8.out, out_layout(h_cast), "[M, F]");
    call.writes("h_fp8.transposed", args.h_fp8.transposed, transposed_layout(h_cast), "[F, M]");
  } else {
    call.writes("h", args.h, problem.dtype, m, f, "[M, F]");
  }
  const GatedMlpSavedLayout& saved =
      static_cast<const GatedMlpForwardState*>(plan.state.get())->saved;
  if (saved.gate_up_bytes != 0) {
    call.writes("saved.gate_up", args.saved.gate_up, problem.dtype, m, 2 * f, "[M, 2F]");
  }
  if (saved.h_bytes != 0) call.writes("saved.h", args.saved.h, problem.dtype, m, f, "[M, F]");
  call.writes("saved.x_t", args.saved.x_t, saved.x_t, "[K, M]");
  call.writes("saved.w_gate_up_t", args.saved.w_gate_up_t, saved.w_gate_up_t, "[K, 2F]");
  call.writes("saved.h_t", args.saved.h_t, saved.h_t, "[F, M]");
  call.writes("saved.w_down_t", args.saved.w_down_t, saved.w_down_t, "[F, K]");
  call.check_apart(plan.workspace_bytes, workspace);
}

void check_call(const GatedMlpBackwardPlan& plan, const GatedMlpBackwardArgs& args,
                const Workspace& workspace) {
  const GatedMlpProblem& problem = plan.problem.problem;
  const std::int64_t m = problem.m;
  const std::int64_t f = problem.f;
  const std::int64_t k = problem.k;
  const Fp8LinearProblem gate_up = gate_up_layer(problem);
  const Fp8LinearProblem down = down_layer(problem);
  Call call("gated_mlp_backward", problem);
  if (problem.down) call.reads("dy", args.dy, m, k, "[M, K]");
  if (!problem.down) call.reads("dh", args.dh, m, f, "[M, F]");
  call.reads("saved.gate_up", args.saved.gate_up, m, 2 * f, "[M, 2F]");
  if (problem.need_dx && problem.fp8) {
    call.reads("saved.w_gate_up_t", args.saved.w_gate_up_t, transposed_layout(cast_of_w(gate_up)),
               "[K, 2F]");
  } else if (problem.need_dx) {
    call.reads("w_gate_up", args.w_gate_up, 2 * f, k, "[2F, K]");
  }
  if (problem.need_dw && problem.fp8) {
    call.reads("saved.x_t", args.saved.x_t, transposed_layout(cast_of_x(gate_up)), "[K, M]");
  } else if (problem.need_dw) {
    call.reads("saved.x", args.saved.x, m, k, "[M, K]");
  }
  if (problem.down && problem.fp8) {
    call.reads("saved.w_down_t", args.saved.w_down_t, transposed_layout(cast_of_w(down)), "[F, K]");
  } else if (problem.down) {
    call.reads("w_down", args.w_down, k, f, "[K, F]");
  }
  if (problem.down && problem.need_dw && problem.fp8) {
    call.reads("saved.h_t", args.saved.h_t, transposed_layout(cast_of_x(down)), "[F, M]");
  } else if (problem.down && problem.need_dw) {
    call.reads("saved.h", args.saved.h, m, f, "[M, F]");
  }

  if (problem.need_dx) call.writes("dx", args.dx, problem.dtype, m, k, "[M, K]");
  if (problem.need_dw) {
    call.writes("dw_gate_up", args.dw_gate_up, problem.dw, 2 * f, k, "[2F, K]");
    if (problem.down) call.writes("dw_down", args.dw_down, problem.dw, k, f, "[K, F]");
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

}  // namespace octet
