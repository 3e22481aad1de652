#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/gated_mlp/state.hpp"
#include "ops/quantize/forms.hpp"

namespace octet {
namespace {

constexpr std::string_view kOp = "gated_mlp";

Fp8LinearProblem layer_of(const GatedMlpProblem& problem) {
  Fp8LinearProblem layer;
  layer.m = problem.m;
  layer.dtype = problem.dtype;
  layer.format = problem.format;
  layer.grad_format = problem.grad_format;
  layer.weights_quantized = problem.weights_quantized;
  layer.training = problem.training;
  layer.need_dx = problem.need_dx;
  layer.need_dw = problem.need_dw;
  layer.dw_dtype = problem.dw_dtype;
  layer.accumulate_dw = problem.accumulate_dw;
  layer.wgrad_blocks = problem.wgrad_blocks;
  layer.amax_floor = problem.amax_floor;
  layer.pow2_scales = problem.pow2_scales;
  layer.max_multiprocessors = problem.max_multiprocessors;
  layer.device = problem.device;
  layer.granularity = problem.granularity;
  layer.fast_accumulation = problem.fast_accumulation;
  layer.mx_scale = problem.mx_scale;
  return layer;
}

// The options of the casts that are not the default.
std::string describe_fp8(const GatedMlpProblem& problem) {
  std::string result;
  if (problem.granularity != Granularity::blockwise) {
    result += text(" --granularity ", name(problem.granularity));
  }
  if (problem.unfused) result += " --unfused";
  if (problem.dtype != Dtype::bf16) result += text(" --input ", name(problem.dtype));
  if (problem.format != Dtype::e4m3) result += text(" --format ", name(problem.format));
  if (problem.grad_format != Dtype::e4m3) {
    result += text(" --grad-format ", name(problem.grad_format));
  }
  if (problem.wgrad_blocks == WgradBlocks::square) result += " --wgrad-blocks 2d";
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  if (problem.mx_scale != MxScale::floor) result += text(" --mx-scale ", name(problem.mx_scale));
  if (problem.fast_accumulation) result += " --fast-accumulation";
  return result;
}

}  // namespace

Fp8LinearProblem gate_up_layer(const GatedMlpProblem& problem) {
  Fp8LinearProblem layer = layer_of(problem);
  layer.n = 2 * problem.f;
  layer.k = problem.k;
  return layer;
}

Fp8LinearProblem down_layer(const GatedMlpProblem& problem) {
  Fp8LinearProblem layer = layer_of(problem);
  layer.n = problem.k;
  layer.k = problem.f;
  layer.need_dx = problem.need_dx || problem.need_dw;
  return layer;
}

void check(const GatedMlpProblem& problem) {
  check_extent(kOp, "M", problem.m);
  check_extent(kOp, "F", problem.f);
  check_extent(kOp, "K", problem.k);
  check_numerics(kOp, layer_of(problem));
  check_activation(kOp, problem.activation);
  if (problem.weights_quantized && !problem.fp8) {
    refuse_argument(kOp, ": weights_quantized needs fp8 = true");
  }
  if (problem.unfused && !problem.fp8) refuse_argument(kOp, ": unfused needs fp8 = true");
  if (problem.granularity != Granularity::blockwise && !problem.fp8) {
    refuse_argument(kOp, ": granularity needs fp8 = true, got ", name(problem.granularity));
  }
  check_size(kOp, 2, problem.f, Dtype::f32);  // so that 2F does not overflow
  check_size(kOp, problem.m, problem.k, Dtype::f32);
  check_size(kOp, 2 * problem.f, problem.k, Dtype::f32);
  check_size(kOp, problem.m, 2 * problem.f, Dtype::f32);
  check_device(kOp, problem.device);
}

std::string describe(const GatedMlpProblem& problem) {
  std::string result = text("gated-mlp --shape ", problem.m, "x", problem.f, "x", problem.k,
                            " --dtype ", problem.fp8 ? "fp8" : name(problem.dtype));
  if (problem.down) result += " --down";
  result += text(" --activation ", name(problem.activation));
  if (problem.fp8) result += describe_fp8(problem);
  // As octet check and octet bench have it: without FP8 the dtype of the layer.
  if (problem.dw_dtype != (problem.fp8 ? Dtype::bf16 : problem.dtype)) {
    result += text(" --dw ", name(problem.dw_dtype));
  }
  if (problem.accumulate_dw) result += " --accumulate-dw";
  if (problem.max_multiprocessors != 0) {
    result += text(" --max-multiprocessors ", problem.max_multiprocessors);
  }
  return result + " --device " + name(problem.device);
}

GatedMlpSavedLayout gated_mlp_saved_layout(const GatedMlpProblem& problem) {
  check(problem);
  GatedMlpSavedLayout layout;
  if (!has_backward(problem)) return layout;
  layout.gate_up_bytes = dense_bytes(problem.dtype, problem.m, 2 * problem.f);
  if (!problem.fp8) {
    if (problem.down && problem.need_dw) {
      layout.h_bytes = dense_bytes(problem.dtype, problem.m, problem.f);
    }
    return layout;
  }
  const Fp8LinearSavedLayout gate_up = fp8_linear_saved_layout(gate_up_layer(problem));
  layout.x_t = gate_up.x_t;
  layout.w_gate_up_t = gate_up.w_t;
  if (!problem.down) return layout;
  const Fp8LinearSavedLayout down = fp8_linear_saved_layout(down_layer(problem));
  layout.h_t = down.x_t;
  layout.w_down_t = down.w_t;
  return layout;
}

GatedMlpCost cost(const GatedMlpForwardPlan& plan) {
  if (plan.state == nullptr) return {};
  return static_cast<const GatedMlpForwardState*>(plan.state.get())->cost;
}

GatedMlpCost cost(const GatedMlpBackwardPlan& plan) {
  if (plan.state == nullptr) return {};
  return static_cast<const GatedMlpBackwardState*>(plan.state.get())->cost;
}

}  // namespace octet
