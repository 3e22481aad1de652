// Runs the parts chunk by chunk, after the arguments of the call are checked.
#include "core/checks.hpp"
#include "core/views.hpp"
#include "ops/linear_cross_entropy/state.hpp"

namespace octet {
namespace {

TensorView rows_of(const TensorView& view, const TokenRange& tokens) {
  return octet::rows_of(view, tokens.first, tokens.rows);
}

TensorView columns_of(const TensorView& view, const TokenRange& tokens) {
  return columns(view, tokens.first, tokens.rows);
}

QuantizedView rows_of(const QuantizedView& view, const TokenRange& tokens) {
  return octet::rows_of(view, tokens.first, tokens.rows);
}

// Tokens that begin at a multiple of 128. The padding stays with the whole.
QuantizedView columns_of(const QuantizedView& view, const TokenRange& tokens) {
  const TokenRange blocks{tokens.first / kBlock, ceil_div(tokens.rows, kBlock)};
  return {columns_of(view.values, tokens), columns_of(view.scales, blocks), view.block};
}

// The tensors of one call: the caller's, and the pieces of the workspace.
struct Tensors {
  QuantizedView x;    // [M, K], FP8 or plain
  QuantizedView x_t;  // [K, M]
  QuantizedView w;    // [V, K]
  QuantizedView w_t;  // [K, V]
  void* logits;       // [chunk_rows, V]
  void* dlogits;      // FP8 [chunk_rows, V]
  void* dlogits_t;    // FP8 [V, wgrad_rows]
  TensorView losses;  // [M]
  LossTotals* totals;
  TensorView dw_sum;  // [V, K] f32, or dw itself
};

// One call of either pass.
class Run {
 public:
  Run(const LinearCrossEntropyProblem& problem, const LinearCrossEntropyState& state,
      const LinearCrossEntropyForwardArgs& args, const TensorView& given_lse,
      const Workspace& workspace, void* stream)
      : problem_(problem), state_(state), args_(args), given_lse_(given_lse), stream_(stream) {
    WorkspaceCarver carver(workspace);
    const auto quantized = [&](const QuantizedLayout& layout) {
      return layout.bytes == 0 ? QuantizedView()
                               : layout.view(carver.take(layout.bytes), problem.device);
    };
    tensors_.x = quantized(state.x_layout);
    tensors_.x_t = quantized(state.x_t_layout);
    tensors_.w = quantized(state.w_layout);
    tensors_.w_t = quantized(state.w_t_layout);
    if (!problem.fp8) {
      tensors_.x = args.x;
      tensors_.x_t = transposed(args.x);
      tensors_.w = args.w;
      tensors_.w_t = transposed(args.w);
    } else if (problem.weights_quantized) {
      tensors_.w = args.weights.w;
      tensors_.w_t = args.weights.w_t;
    }
    tensors_.logits = carver.take(state.logits_bytes);
    tensors_.dlogits = carver.take(state.dlogits_bytes);
    tensors_.dlogits_t = carver.take(state.dlogits_t_bytes);
    void* losses = carver.take(state.losses_bytes);
    tensors_.losses =
        losses == nullptr ? args.loss : make_view(losses, Dtype::f32, {problem.m}, problem.device);
    tensors_.totals = static_cast<LossTotals*>(carver.take(state.totals_bytes));
    void* dw_sum = carver.take(state.dw_sum_bytes);
    tensors_.dw_sum = dw_sum == nullptr
                          ? args.dw
                          : make_view(dw_sum, Dtype::f32, {problem.v, problem.k}, problem.device);
    scratch_ = carver.rest();
  }

  void run() {
    const bool reduces = problem_.reduction != LossReduction::none;
    if (reduces) step(CountTargets{args_.targets, args_.loss_grad, tensors_.totals});
    if (state_.quantize_x) {
      run_part(*state_.quantize_x, QuantizeArgs{args_.x, tensors_.x, tensors_.x_t});
    }
    if (state_.quantize_w) {
      run_part(*state_.quantize_w, QuantizeArgs{args_.w, tensors_.w, tensors_.w_t});
    }
    for (TokenRange group{0, 0}; group.first < problem_.m; group.first += group.rows) {
      group.rows = std::min(state_.wgrad_rows, problem_.m - group.first);
      run_group(group);
    }
    if (state_.losses_bytes != 0) step(SumLosses{tensors_.losses, tensors_.totals, args_.loss});
    if (state_.dw_sum_bytes != 0) step(RoundGradient{tensors_.dw_sum, args_.dw});
  }

 private:
  template <class PartPlan, class Args>
  void run_part(const PartPlan& plan, const Args& args) {
    run_plan(plan, args, scratch_, stream_);
  }
  void step(const LossRowsStep& step) { run_part(state_.loss_rows, step); }

  // The tokens of one weight gradient product, chunk by chunk.
  void run_group(const TokenRange& group) {
    QuantizedView dlogits_t;
    if (state_.dlogits_t_bytes != 0) {
      dlogits_t = dlogits_t_layout(problem_, group.rows).view(tensors_.dlogits_t, problem_.device);
    }
    for (TokenRange chunk{0, 0}; chunk.first < group.rows; chunk.first += chunk.rows) {
      chunk.rows = std::min(state_.chunk_rows, group.rows - chunk.first);
      const TensorView logits = run_chunk({group.first + chunk.first, chunk.rows});
      if (!state_.gradient) continue;
      const QuantizedView part =
          dlogits_t.values.data == nullptr ? QuantizedView() : columns_of(dlogits_t, chunk);
      run_chunk_gradient({group.first + chunk.first, chunk.rows}, logits, part);
      if (!problem_.fp8) dlogits_t = transposed(logits);  // a group is one chunk
    }
    if (!state_.dw) return;
    run_part(group.first == 0 ? *state_.dw : state_.more_dw->of(group),
             GemmArgs{dlogits_t, columns_of(tensors_.x_t, group), tensors_.dw_sum});
  }

  // The losses; with gradients, logits become dlogits.
  TensorView run_chunk(const TokenRange& tokens) {
    const TensorView logits = make_matrix(tensors_.logits, problem_.dtype, tokens.rows, problem_.v,
                                          state_.logits_pitch, problem_.device);
    run_part(state_.logits.of(tokens), GemmArgs{rows_of(tensors_.x, tokens), tensors_.w, logits});
    LossOfRows rows;
    rows.logits = logits;
    rows.targets = rows_of(args_.targets, tokens);
    rows.loss = rows_of(tensors_.losses, tokens);
    rows.lse = rows_of(args_.lse, tokens);
    rows.given_lse = rows_of(given_lse_, tokens);
    rows.gradient = state_.gradient;
    if (problem_.reduction == LossReduction::none) {
      rows.row_grad = rows_of(args_.loss_grad, tokens);
    }
    rows.totals = tensors_.totals;
    step(rows);
    return logits;
  }

  void run_chunk_gradient(const TokenRange& tokens, const TensorView& plain,
                          const QuantizedView& dlogits_t) {
    QuantizedView dlogits = plain;
    if (state_.quantize_dlogits) {
      if (state_.dx) {
        dlogits = dlogits_layout(problem_, tokens.rows).view(tensors_.dlogits, problem_.device);
      }
      run_part(state_.quantize_dlogits->of(tokens),
               QuantizeArgs{plain, state_.dx ? dlogits : QuantizedView(), dlogits_t});
    }
    if (state_.dx) {
      run_part(state_.dx->of(tokens), GemmArgs{dlogits, tensors_.w_t, rows_of(args_.dx, tokens)});
    }
  }

  const LinearCrossEntropyProblem& problem_;
  const LinearCrossEntropyState& state_;
  const LinearCrossEntropyForwardArgs& args_;
  TensorView given_lse_;
  void* stream_;
  Workspace scratch_;
  Tensors tensors_;
};

}  // namespace

void run(const LinearCrossEntropyForwardPlan& plan, const LinearCrossEntropyForwardArgs& given,
         Workspace workspace, void* stream) {
  check_plan("linear_cross_entropy_forward", plan.state.get());
  const LinearCrossEntropyForwardArgs args = check_call(plan, given, workspace);
  const auto& state = *static_cast<const LinearCrossEntropyState*>(plan.state.get());
  Run(plan.problem, state, args, {}, workspace, stream).run();
}

void run(const LinearCrossEntropyBackwardPlan& plan, const LinearCrossEntropyBackwardArgs& given,
         Workspace workspace, void* stream) {
  check_plan("linear_cross_entropy_backward", plan.state.get());
  const LinearCrossEntropyBackwardArgs args = check_call(plan, given, workspace);
  LinearCrossEntropyForwardArgs all;  // the same tensors; no loss and no lse are written
  all.x = args.x;
  all.w = args.w;
  all.weights = args.weights;
  all.targets = args.targets;
  all.loss_grad = args.loss_grad;
  all.dx = args.dx;
  all.dw = args.dw;
  const auto& state = *static_cast<const LinearCrossEntropyState*>(plan.state.get());
  Run(plan.problem, state, all, args.lse, workspace, stream).run();
}

}  // namespace octet
