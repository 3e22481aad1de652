// The inputs of the layer, the outputs of one call, and the call itself.
#include "check/ops/gated_mlp.hpp"
#include "check/reference/decode.hpp"

#include <array>

namespace octet {

namespace {

// `block` of a layer that shares scales blockwise.
BlockShape of_granularity(const GatedMlpProblem& problem, BlockShape block) {
  if (problem.granularity == Granularity::tensorwise) return kWholeTensor;
  return problem.granularity == Granularity::rowwise ? kEachRow : block;
}

}  // namespace

BlockShape strip_block(const GatedMlpProblem& problem) {
  return of_granularity(problem, kBlock1x128);
}
BlockShape wgrad_block(const GatedMlpProblem& problem) {
  return problem.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : strip_block(problem);
}

QuantizedOperand cast(const GatedMlpProblem& problem, const char* name, const TensorView& tensor,
                      Transpose transpose, Dtype format, BlockShape block,
                      const DataOptions& options, GateReport& report) {
  OracleRules rules{format, block, problem.amax_floor, problem.pow2_scales};
  rules.fold_mx = problem.granularity == Granularity::mxfp8;
  rules.mx_scale = problem.mx_scale;
  return {text("quantised ", name), tensor, transpose, rules, options, report};
}

GatedMlpInputs::GatedMlpInputs(const GatedMlpProblem& problem, const DataOptions& options)
    : x(random_matrix(problem.dtype, problem.m, problem.k, 0, options, problem.device)),
      w_gate_up(
          random_weights(problem.dtype, 2 * problem.f, problem.k, 1, options, problem.device)) {
  if (problem.down) {
    w_down = random_weights(problem.dtype, problem.k, problem.f, 2, options, problem.device);
  }
  if (!problem.training) return;
  dout = random_matrix(problem.dtype, problem.m, problem.down ? problem.k : problem.f, 3, options,
                       problem.device);
  if (!problem.need_dw || !problem.accumulate_dw) return;
  old_dw_gate_up =
      random_matrix(problem.dw_dtype, 2 * problem.f, problem.k, 4, options, problem.device);
  if (problem.down) {
    old_dw_down = random_matrix(problem.dw_dtype, problem.k, problem.f, 5, options, problem.device);
  }
}

GatedMlpOperands::GatedMlpOperands(const GatedMlpProblem& problem, const GatedMlpInputs& inputs,
                                   const DataOptions& options, GateReport& report) {
  const auto operand = [&](const char* name, const TensorView& tensor, Transpose transpose,
                           Dtype format, BlockShape block) -> QuantizedView {
    if (!problem.fp8) return transpose == Transpose::yes ? transposed(tensor) : tensor;
    casts_.push_back(cast(problem, name, tensor, transpose, format, block, options, report));
    return casts_.back().view();
  };
  const auto copy = [&](const QuantizedView& view) {
    copies_.push_back(in_our_layout(view));
    return copies_.back().view();
  };
  const BlockShape w_block = of_granularity(problem, kBlock128x128);
  const auto weight = [&](const char* name, const char* turned, const TensorView& tensor,
                          QuantizedView& w, QuantizedView& w_t) {
    w = operand(name, tensor, Transpose::no, problem.format, w_block);
    w_t = problem.fp8 && w_block == kEachRow
              ? operand(turned, tensor, Transpose::yes, problem.format, w_block)
              : transposed(w);
  };
  x = operand("x", inputs.x, Transpose::no, problem.format, strip_block(problem));
  weight("w_gate_up", "w_gate_up^T", inputs.w_gate_up, w_gate_up, w_gate_up_t);
  if (problem.down) weight("w_down", "w_down^T", inputs.w_down, w_down, w_down_t);
  if (problem.weights_quantized) {
    weights.gate_up = {copy(w_gate_up), copy(w_gate_up_t)};
    if (problem.down) weights.down = {copy(w_down), copy(w_down_t)};
  }
  if (!problem.training) return;
  if (problem.need_dw)
    x_t = operand("x^T", inputs.x, Transpose::yes, problem.format, wgrad_block(problem));
  if (!problem.down) return;
  dy = operand("dy", inputs.dout, Transpose::no, problem.grad_format, strip_block(problem));
  if (problem.need_dw) {
    dy_t = operand("dy^T", inputs.dout, Transpose::yes, problem.grad_format, strip_block(problem));
  }
}

GatedMlpOutputs::GatedMlpOutputs(const GatedMlpProblem& problem, const GatedMlpInputs& inputs,
                                 std::int64_t gap, bool owns_padding) {
  const auto [m, f, k] = std::array{problem.m, problem.f, problem.k};
  const auto matrix = [&](std::optional<GuardedMatrix>& output, Dtype dtype, std::int64_t rows,
                          std::int64_t cols) {
    output.emplace(dtype, rows, cols, gap, problem.device);
  };
  const auto quantized = [&](std::optional<GuardedQuantized>& output,
                             const QuantizedLayout& layout) {
    if (layout.bytes != 0) output.emplace(layout, owns_padding, problem.device);
  };
  const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
  if (problem.down) matrix(y, problem.dtype, m, k);
  if (!problem.down && !problem.fp8) matrix(h, problem.dtype, m, f);
  if (!problem.down && problem.fp8) {
    quantized(h_fp8, {m, f, problem.format, strip_block(problem)});
    if (problem.training && problem.need_dw) {
      quantized(h_fp8_t, {f, m, problem.format, wgrad_block(problem)});
    }
  }
  if (layout.gate_up_bytes != 0) matrix(gate_up, problem.dtype, m, 2 * f);
  if (layout.h_bytes != 0) matrix(saved_h, problem.dtype, m, f);
  quantized(x_t, layout.x_t);
  quantized(w_gate_up_t, layout.w_gate_up_t);
  quantized(h_t, layout.h_t);
  quantized(w_down_t, layout.w_down_t);
  if (!problem.training) return;
  if (problem.need_dx) matrix(dx, problem.dtype, m, k);
  if (!problem.need_dw) return;
  matrix(dw_gate_up, problem.dw_dtype, 2 * f, k);
  if (problem.down) matrix(dw_down, problem.dw_dtype, k, f);
  if (!problem.accumulate_dw) return;
  dw_gate_up->fill_from(inputs.old_dw_gate_up);
  if (problem.down) dw_down->fill_from(inputs.old_dw_down);
}

void run_layer(const GatedMlpProblem& problem, const DataOptions& options,
               const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
               const GatedMlpOutputs& outputs) {
  const Fp8LinearOptions plan_options{options.backend, options.quantize_backend, options.threads};
  GatedMlpForwardArgs forward;
  forward.x = inputs.x;
  forward.w_gate_up = inputs.w_gate_up;
  forward.w_down = inputs.w_down;
  forward.weights = operands.weights;
  forward.h = view_of(outputs.h);
  forward.h_fp8 = {view_of(outputs.h_fp8), view_of(outputs.h_fp8_t)};
  forward.y = view_of(outputs.y);
  forward.saved = {inputs.x,
                   view_of(outputs.gate_up),
                   view_of(outputs.x_t),
                   outputs.w_gate_up_t ? outputs.w_gate_up_t->view() : operands.weights.gate_up.w_t,
                   view_of(outputs.saved_h),
                   view_of(outputs.h_t),
                   outputs.w_down_t ? outputs.w_down_t->view() : operands.weights.down.w_t};
  run_once(plan_gated_mlp_forward(problem, plan_options), forward, problem.device);
  if (!outputs.dx && !outputs.dw_gate_up) return;
  GatedMlpBackwardArgs backward;
  (problem.down ? backward.dy : backward.dh) = inputs.dout;
  backward.w_gate_up = inputs.w_gate_up;
  backward.w_down = inputs.w_down;
  backward.saved = forward.saved;
  backward.dx = view_of(outputs.dx);
  backward.dw_gate_up = view_of(outputs.dw_gate_up);
  backward.dw_down = view_of(outputs.dw_down);
  run_once(plan_gated_mlp_backward(problem, plan_options), backward, problem.device);
}

}  // namespace octet
