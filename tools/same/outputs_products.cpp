// The casts, the product, and the layers made of them.
#include "outputs.hpp"

namespace octet::same {
namespace {

constexpr std::initializer_list<std::int64_t> kSizes{1,   2,   7,   8,   16,  31,  64,  65,
                                                     120, 127, 128, 129, 192, 255, 256, 260};
constexpr std::initializer_list<std::int64_t> kGaps{0, 0, 8, 5};

std::optional<BlockShape> any_block(Draw& draw, std::string_view option) {
  return draw.pick<std::optional<BlockShape>>(option, {{"1x128", kBlock1x128},
                                                       {"128x1", kBlock128x1},
                                                       {"128x128", kBlock128x128},
                                                       {"none", std::nullopt}});
}

BlockShape some_block(Draw& draw) {
  return draw.pick<BlockShape>(
      "block", {{"1x128", kBlock1x128}, {"128x1", kBlock128x1}, {"128x128", kBlock128x128}});
}

float any_floor(Draw& draw) {
  return draw.pick<float>("amax_floor", {{"0", 0.0f}, {"0", 0.0f}, {"1e-4", 1e-4f}, {"10", 10.0f}});
}

WgradBlocks any_wgrad_blocks(Draw& draw) {
  return draw.pick<WgradBlocks>("wgrad", {{"1d", WgradBlocks::rows}, {"2d", WgradBlocks::square}});
}

// What fp8_linear and gated_mlp draw alike.
template <class Problem>
void draw_training(Trial& trial, Problem& problem) {
  Draw& draw = trial.draw;
  problem.training = !draw.once_in(6, "inference");
  if (!problem.training) return;
  switch (draw.pick("gradients", {0, 0, 1, 2})) {
    case 1: problem.need_dx = false; break;
    case 2: problem.need_dw = false; break;
  }
  if (!problem.need_dw) return;
  problem.dw_dtype = trial.float_dtype("dw");
  if (problem.dw_dtype != Dtype::f16) problem.accumulate_dw = draw.once_in(3, "accumulate");
}

TensorView weight_gradient(Trial& trial, const char* name, bool wanted, bool accumulate,
                           Dtype dtype, std::int64_t rows, std::int64_t cols) {
  if (!wanted) return {};
  return accumulate ? trial.accumulated_output(name, dtype, rows, cols)
                    : trial.output(name, dtype, rows, cols);
}

}  // namespace

void try_quantize(Trial& trial) {
  Draw& draw = trial.draw;
  QuantizeProblem problem;
  draw_matrix(trial, kSizes, kSizes, problem);
  problem.input_dtype = trial.float_dtype("input");
  problem.format = trial.fp8_dtype("format");
  problem.block = any_block(draw, "block");
  problem.transposed_block = any_block(draw, "transposed");
  if (!problem.block && !problem.transposed_block) problem.block = kBlock1x128;
  problem.amax_floor = any_floor(draw);
  problem.pow2_scales = draw.once_in(3, "pow2");
  const std::int64_t gap = draw.pick("gap", kGaps);
  const PlanOptions options = trial.plan_options();

  Fp8Output fp8;
  fp8.format = problem.format;
  fp8.block = problem.block;
  fp8.transposed_block = problem.transposed_block;
  const Fp8Copies copies = trial.fp8_output("fp8", fp8, problem.rows, problem.cols);
  const QuantizeArgs args{trial.input(problem.input_dtype, problem.rows, problem.cols, gap),
                          copies.out, copies.transposed};
  trial.run_pass("run", plan_quantize, problem, options, args);
}

void try_dequantize(Trial& trial) {
  Draw& draw = trial.draw;
  DequantizeProblem problem;
  draw_matrix(trial, kSizes, kSizes, problem);
  problem.format = trial.fp8_dtype("format");
  problem.block = some_block(draw);
  problem.out_dtype = trial.float_dtype("out");
  const std::int64_t gap = draw.pick("gap", kGaps);
  const PlanOptions options = trial.plan_options();
  const DequantizeArgs args{
      trial.quantized_input(problem.rows, problem.cols, problem.format, problem.block),
      trial.output("out", problem.out_dtype, problem.rows, problem.cols, gap)};
  trial.run_pass("run", plan_dequantize, problem, options, args);
}

// Of a tensor whose memory is transposed, in half of the problems.
void try_repack(Trial& trial) {
  Draw& draw = trial.draw;
  RepackProblem problem;
  draw_matrix(trial, kSizes, kSizes, problem);
  problem.format = trial.fp8_dtype("format");
  problem.block = some_block(draw);
  QuantizedView input;
  if (draw.once_in(2, "turned")) {
    input = trial.quantized_input(problem.cols, problem.rows, problem.format,
                                  {problem.block.cols, problem.block.rows});
    input.values = transposed(input.values);
    input.scales = transposed(input.scales);
    input.block = problem.block;
  } else {
    input = trial.quantized_input(problem.rows, problem.cols, problem.format, problem.block);
  }
  input.owns_padding = false;
  const RepackArgs args{input, trial.output("out", QuantizedLayout(problem.rows, problem.cols,
                                                                   problem.format, problem.block))};
  trial.run_pass("run", plan_repack, problem, PlanOptions{"", 2}, args);
}

void try_gemm(Trial& trial) {
  Draw& draw = trial.draw;
  GemmProblem problem;
  problem.device = trial.device;
  problem.m = draw.pick("m", kSizes);
  problem.n = draw.pick("n", kSizes);
  problem.k = draw.pick("k", kSizes);
  GemmArgs args;
  if (draw.below(3) != 0) {
    const int pairing = static_cast<int>(draw.pick("pairing", {0, 1, 2}));
    problem.a = {trial.fp8_dtype("a"), pairing == 1 ? kBlock128x128 : kBlock1x128, Major::k};
    problem.b = {trial.fp8_dtype("b"), pairing == 0 ? kBlock128x128 : kBlock1x128, Major::k};
    args.a = trial.quantized_input(problem.m, problem.k, problem.a.dtype, problem.a.block);
    args.b = trial.quantized_input(problem.n, problem.k, problem.b.dtype, problem.b.block);
  } else {
    const Dtype dtype = trial.float_dtype("operands");
    const auto operand = [&](GemmOperand& side, std::string_view option, std::int64_t rows) {
      side = {dtype, {}, Major::k};
      if (!draw.once_in(2, option))
        return trial.input(dtype, rows, problem.k, draw.pick("gap", kGaps));
      side.major = Major::mn;
      return transposed(trial.input(dtype, problem.k, rows, draw.pick("gap", kGaps)));
    };
    args.a = operand(problem.a, "a_turned", problem.m);
    args.b = operand(problem.b, "b_turned", problem.n);
  }
  problem.out_dtype = trial.float_dtype("out");
  if (problem.out_dtype != Dtype::f16) problem.accumulate = draw.once_in(3, "accumulate");
  const std::int64_t gap = draw.pick("gap", kGaps);
  const PlanOptions options = trial.plan_options();
  args.d = problem.accumulate
               ? trial.accumulated_output("d", problem.out_dtype, problem.m, problem.n)
               : trial.output("d", problem.out_dtype, problem.m, problem.n, gap);
  trial.run_pass("run", plan_gemm, problem, options, args);
}

void try_fp8_linear(Trial& trial) {
  Draw& draw = trial.draw;
  Fp8LinearProblem problem;
  problem.device = trial.device;
  problem.m = draw.pick("m", kSizes);
  problem.n = draw.pick("n", kSizes);
  problem.k = draw.pick("k", kSizes);
  problem.dtype = trial.float_dtype("dtype");
  problem.format = trial.fp8_dtype("format");
  problem.grad_format = trial.fp8_dtype("grad_format");
  problem.weights_quantized = draw.once_in(3, "weights_quantized");
  draw_training(trial, problem);
  problem.wgrad_blocks = any_wgrad_blocks(draw);
  problem.amax_floor = any_floor(draw);
  problem.pow2_scales = draw.once_in(3, "pow2");
  const Fp8LinearOptions options = trial.layer_options();

  Fp8LinearForwardArgs forward;
  forward.x = trial.input(problem.dtype, problem.m, problem.k);
  if (problem.weights_quantized) {
    forward.weights = trial.quantized_weights(problem.n, problem.k, problem.format);
  } else {
    forward.w = trial.input(problem.dtype, problem.n, problem.k);
  }
  forward.y = trial.output("y", problem.dtype, problem.m, problem.n);
  const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
  forward.saved = {trial.output("saved.x_t", layout.x_t), trial.output("saved.w_t", layout.w_t)};
  const bool taken = trial.run_pass("forward", plan_fp8_linear_forward, problem, options, forward);
  if (!taken || !problem.training) return;

  Fp8LinearBackwardArgs backward;
  backward.dy = trial.input(problem.dtype, problem.m, problem.n);
  backward.saved = forward.saved;
  if (problem.weights_quantized) backward.saved.w_t = forward.weights.w_t;
  if (problem.need_dx) backward.dx = trial.output("dx", problem.dtype, problem.m, problem.k);
  backward.dw = weight_gradient(trial, "dw", problem.need_dw, problem.accumulate_dw,
                                problem.dw_dtype, problem.n, problem.k);
  trial.run_pass("backward", plan_fp8_linear_backward, problem, options, backward);
}

void try_gated_mlp(Trial& trial) {
  Draw& draw = trial.draw;
  GatedMlpProblem problem;
  problem.device = trial.device;
  problem.m = draw.pick("m", kSizes);
  problem.f = draw.pick("f", kSizes);
  problem.k = draw.pick("k", kSizes);
  problem.dtype = trial.float_dtype("dtype");
  problem.activation = static_cast<GateActivation>(draw.pick("activation", {1, 2, 3, 4}));
  problem.down = draw.once_in(2, "down");
  problem.fp8 = !draw.once_in(3, "plain");
  draw_training(trial, problem);
  if (problem.fp8) {
    problem.format = trial.fp8_dtype("format");
    problem.grad_format = trial.fp8_dtype("grad_format");
    problem.weights_quantized = draw.once_in(3, "weights_quantized");
    problem.wgrad_blocks = any_wgrad_blocks(draw);
    problem.amax_floor = any_floor(draw);
    problem.pow2_scales = draw.once_in(3, "pow2");
    problem.unfused = draw.once_in(4, "unfused");
  }
  const Fp8LinearOptions options = trial.layer_options();
  const auto [m, f, k] = std::array{problem.m, problem.f, problem.k};

  GatedMlpForwardArgs forward;
  forward.x = trial.input(problem.dtype, m, k);
  if (problem.weights_quantized) {
    forward.weights.gate_up = trial.quantized_weights(2 * f, k, problem.format);
    if (problem.down) forward.weights.down = trial.quantized_weights(k, f, problem.format);
  } else {
    forward.w_gate_up = trial.input(problem.dtype, 2 * f, k);
    if (problem.down) forward.w_down = trial.input(problem.dtype, k, f);
  }
  if (problem.down) {
    forward.y = trial.output("y", problem.dtype, m, k);
  } else if (problem.fp8) {
    Fp8Output h;
    h.format = problem.format;
    h.transposed_block.reset();
    if (problem.training && problem.need_dw) {
      h.transposed_block =
          problem.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128;
    }
    forward.h_fp8 = trial.fp8_output("h_fp8", h, m, f);
  } else {
    forward.h = trial.output("h", problem.dtype, m, f);
  }
  const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
  GatedMlpSaved& saved = forward.saved;
  if (layout.gate_up_bytes != 0) {
    saved.gate_up = trial.output("saved.gate_up", problem.dtype, m, 2 * f);
  }
  if (layout.h_bytes != 0) saved.h = trial.output("saved.h", problem.dtype, m, f);
  saved.x_t = trial.output("saved.x_t", layout.x_t);
  saved.w_gate_up_t = trial.output("saved.w_gate_up_t", layout.w_gate_up_t);
  saved.h_t = trial.output("saved.h_t", layout.h_t);
  saved.w_down_t = trial.output("saved.w_down_t", layout.w_down_t);
  const bool taken = trial.run_pass("forward", plan_gated_mlp_forward, problem, options, forward);
  if (!taken || !problem.training) return;

  GatedMlpBackwardArgs backward;
  (problem.down ? backward.dy : backward.dh) = trial.input(problem.dtype, m, problem.down ? k : f);
  backward.saved = saved;
  if (problem.weights_quantized) {
    backward.saved.w_gate_up_t = forward.weights.gate_up.w_t;
    backward.saved.w_down_t = forward.weights.down.w_t;
  }
  if (!problem.fp8) {
    backward.w_gate_up = forward.w_gate_up;
    backward.w_down = forward.w_down;
    backward.saved.x = forward.x;
  }
  if (problem.need_dx) backward.dx = trial.output("dx", problem.dtype, m, k);
  backward.dw_gate_up = weight_gradient(trial, "dw_gate_up", problem.need_dw, problem.accumulate_dw,
                                        problem.dw_dtype, 2 * f, k);
  backward.dw_down = weight_gradient(trial, "dw_down", problem.need_dw && problem.down,
                                     problem.accumulate_dw, problem.dw_dtype, k, f);
  trial.run_pass("backward", plan_gated_mlp_backward, problem, options, backward);
}

}  // namespace octet::same
