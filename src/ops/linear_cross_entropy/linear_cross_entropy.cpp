#include <octet/ops/linear_cross_entropy.hpp>

#include "core/call.hpp"
#include "core/message.hpp"
#include "ops/linear_cross_entropy/state.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "linear_cross_entropy";
constexpr std::string_view kForward = "linear_cross_entropy_forward";
constexpr std::string_view kBackward = "linear_cross_entropy_backward";

std::string_view name(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::none: return "none";
    case LossReduction::sum: return "sum";
    default: return "mean";
  }
}

void check_reduction(LossReduction reduction) {
  if (reduction == LossReduction::none || reduction == LossReduction::sum ||
      reduction == LossReduction::mean) {
    return;
  }
  refuse_argument(kOp, ": reduction must be none (0), sum (1) or mean (2), got ",
                  static_cast<std::int32_t>(reduction));
}

// x, w and targets, which both passes read.
template <class Args>
void read_inputs(Call& call, const LinearCrossEntropyProblem& problem, Args& args, bool needs_w_t) {
  const auto [m, v, k] = std::array{problem.m, problem.v, problem.k};
  const QuantizedForm w{problem.format, v, k, kBlock128x128, "[V, K]"};
  const QuantizedForm w_t{problem.format, k, v, kBlock128x128, "[K, V]"};
  call.reads("x", args.x, MatrixForm{problem.dtype, m, k, "[M, K]"});
  call.reads_if(!problem.weights_quantized, "w", args.w, MatrixForm{problem.dtype, v, k, "[V, K]"});
  call.reads_if(problem.weights_quantized, "weights.w", args.weights.w, w);
  call.reads_if(problem.weights_quantized && needs_w_t, "weights.w_t", args.weights.w_t, w_t);
  call.reads("targets", args.targets, TensorForm(problem.target_dtype, {m}, "[M]"));
}

template <class Args>
void write_gradients(Call& call, const LinearCrossEntropyProblem& problem, Args& args,
                     bool gradient) {
  call.writes_if(gradient && problem.need_dx, "dx", args.dx,
                 MatrixForm{problem.dtype, problem.m, problem.k, "[M, K]"});
  call.writes_if(gradient && problem.need_dw, "dw", args.dw,
                 MatrixForm{problem.dw_dtype, problem.v, problem.k, "[V, K]"});
}

// On the CPU targets can be looked at before anything is written.
void check_targets(std::string_view op, const LinearCrossEntropyProblem& problem,
                   const TensorView& targets) {
  if (problem.device.type != DeviceType::cpu) return;
  for (std::int64_t row = 0; row < problem.m; ++row) {
    const std::int64_t target = target_at(targets, row);
    if (target == problem.ignore_index || (target >= 0 && target < problem.v)) continue;
    refuse_argument(op, ": targets must be in [0, V) = [0, ", problem.v,
                    ") or ignore_index = ", problem.ignore_index, ", token ", row, " has ", target);
  }
}

}  // namespace

Fp8LinearProblem head_layer(const LinearCrossEntropyProblem& problem, std::int64_t rows,
                            bool gradient) {
  Fp8LinearProblem layer;
  layer.m = rows;
  layer.n = problem.v;
  layer.k = problem.k;
  layer.dtype = problem.dtype;
  layer.format = problem.format;
  layer.grad_format = problem.grad_format;
  layer.weights_quantized = problem.weights_quantized;
  layer.training = gradient;
  layer.need_dx = problem.need_dx;
  layer.need_dw = problem.need_dw;
  layer.dw_dtype = problem.dw_dtype;
  layer.accumulate_dw = problem.accumulate_dw;
  layer.wgrad_blocks = problem.wgrad_blocks;
  layer.amax_floor = problem.amax_floor;
  layer.pow2_scales = problem.pow2_scales;
  layer.max_multiprocessors = problem.max_multiprocessors;
  layer.device = problem.device;
  return layer;
}

LossRowsProblem loss_rows_problem(const LinearCrossEntropyProblem& problem) {
  return {problem.v,         problem.dtype, problem.target_dtype, problem.ignore_index,
          problem.reduction, problem.device};
}

void check(const LinearCrossEntropyProblem& problem) {
  check_extent(kOp, "M", problem.m);
  check_extent(kOp, "V", problem.v);
  check_extent(kOp, "K", problem.k);
  if (problem.accumulate_dw && problem.dw_dtype != Dtype::f32) {
    fail(ErrorCode::unsupported, kOp, ": accumulate_dw needs an f32 dw, got ",
         name(problem.dw_dtype));
  }
  check_numerics(kOp, head_layer(problem, problem.m, problem.training));
  check_reduction(problem.reduction);
  if (problem.target_dtype != Dtype::i64 && problem.target_dtype != Dtype::i32) {
    refuse_argument(kOp, ": target_dtype must be i64 or i32, got ", name(problem.target_dtype));
  }
  if (problem.weights_quantized && !problem.fp8) {
    refuse_argument(kOp, ": weights_quantized needs fp8 = true");
  }
  if (problem.max_chunk_rows < 0 || problem.max_chunk_rows % kBlock != 0) {
    refuse_argument(kOp, ": max_chunk_rows must be 0 or a multiple of 128, got ",
                    problem.max_chunk_rows);
  }
  check_size(kOp, problem.m, problem.k, Dtype::f32);
  check_size(kOp, problem.v, problem.k, Dtype::f32);
  check_size(kOp, problem.m, problem.v, Dtype::f32);
  check_device(kOp, problem.device);
}

std::string describe(const LinearCrossEntropyProblem& problem) {
  std::string result =
      text("linear-cross-entropy --shape ", problem.m, "x", problem.v, "x", problem.k, " --dtype ",
           problem.fp8 ? "fp8" : name(problem.dtype), " --reduction ", name(problem.reduction));
  if (problem.fp8) {
    if (problem.dtype != Dtype::bf16) result += text(" --input ", name(problem.dtype));
    if (problem.format != Dtype::e4m3) result += text(" --format ", name(problem.format));
    if (problem.grad_format != Dtype::e4m3) {
      result += text(" --grad-format ", name(problem.grad_format));
    }
    if (problem.wgrad_blocks == WgradBlocks::square) result += " --wgrad-blocks 2d";
    if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
    if (problem.pow2_scales) result += " --pow2-scales";
  }
  if (problem.target_dtype != Dtype::i64) {
    result += text(" --target ", name(problem.target_dtype));
  }
  if (!problem.training) result += " --inference";
  // As octet check and octet bench have it: without FP8 the dtype of the layer.
  if (problem.dw_dtype != (problem.fp8 ? Dtype::bf16 : problem.dtype)) {
    result += text(" --dw ", name(problem.dw_dtype));
  }
  if (problem.accumulate_dw) result += " --accumulate-dw";
  if (problem.max_chunk_rows != 0) result += text(" --chunk-rows ", problem.max_chunk_rows);
  if (problem.max_multiprocessors != 0) {
    result += text(" --max-multiprocessors ", problem.max_multiprocessors);
  }
  return result + " --device " + name(problem.device);
}

LinearCrossEntropyForwardArgs check_call(const LinearCrossEntropyForwardPlan& plan,
                                         LinearCrossEntropyForwardArgs args,
                                         const Workspace& workspace) {
  const LinearCrossEntropyProblem& problem = plan.problem;
  const bool gradient = forward_has_gradient(problem);
  const bool reduces = problem.reduction != LossReduction::none;
  Call call(kForward, problem.device);
  read_inputs(call, problem, args, gradient && problem.need_dx);
  call.reads_if(gradient && args.loss_grad.data != nullptr, "loss_grad", args.loss_grad,
                TensorForm(Dtype::f32, {1}, "[1]"));
  call.writes(
      "loss", args.loss,
      reduces ? TensorForm(Dtype::f32, {1}, "[1]") : TensorForm(Dtype::f32, {problem.m}, "[M]"));
  call.writes_if(args.lse.data != nullptr, "lse", args.lse,
                 TensorForm(Dtype::f32, {problem.m}, "[M]"));
  write_gradients(call, problem, args, gradient);
  call.check_apart(plan.workspace_bytes, workspace);
  check_targets(kForward, problem, args.targets);
  return args;
}

LinearCrossEntropyBackwardArgs check_call(const LinearCrossEntropyBackwardPlan& plan,
                                          LinearCrossEntropyBackwardArgs args,
                                          const Workspace& workspace) {
  const LinearCrossEntropyProblem& problem = plan.problem;
  const bool reduces = problem.reduction != LossReduction::none;
  Call call(kBackward, problem.device);
  read_inputs(call, problem, args, problem.need_dx);
  call.reads_if(
      !reduces || args.loss_grad.data != nullptr, "loss_grad", args.loss_grad,
      reduces ? TensorForm(Dtype::f32, {1}, "[1]") : TensorForm(Dtype::f32, {problem.m}, "[M]"));
  call.reads_if(args.lse.data != nullptr, "lse", args.lse,
                TensorForm(Dtype::f32, {problem.m}, "[M]"));
  write_gradients(call, problem, args, true);
  call.check_apart(plan.workspace_bytes, workspace);
  check_targets(kBackward, problem, args.targets);
  return args;
}

}  // namespace octet
