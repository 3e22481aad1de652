// The memory-bound operators on rows: rms_norm and gated_activation.
#include "outputs.hpp"

namespace octet::same {
namespace {

constexpr std::initializer_list<std::int64_t> kRows{1, 2, 3, 17, 64, 127, 128, 129, 200};
constexpr std::initializer_list<std::int64_t> kCols{1,   2,   7,   8,    24,   127,  128,
                                                    136, 256, 500, 1024, 1032, 2048, 4096};
constexpr std::initializer_list<std::int64_t> kGaps{0, 0, 8, 5};

std::optional<Fp8Output> any_fp8(Trial& trial) {
  Draw& draw = trial.draw;
  if (!draw.once_in(2, "fp8")) return std::nullopt;
  const auto block = [&](std::string_view option) {
    return draw.pick<std::optional<BlockShape>>(
        option, {{"1x128", kBlock1x128}, {"128x128", kBlock128x128}, {"none", std::nullopt}});
  };
  Fp8Output fp8;
  fp8.format = trial.fp8_dtype("format");
  fp8.block = block("block");
  fp8.transposed_block = block("transposed");
  if (!fp8.block && !fp8.transposed_block) fp8.block = kBlock1x128;
  fp8.amax_floor = draw.pick<float>("amax_floor", {{"0", 0.0f}, {"0", 0.0f}, {"1e-4", 1e-4f}});
  fp8.pow2_scales = draw.once_in(3, "pow2");
  return fp8;
}

// The reference writes no FP8. The two steps one after the other do, on every device.
PlanOptions fp8_options(Trial& trial, const std::optional<Fp8Output>& fp8, PlanOptions options) {
  if (!fp8) return options;
  options.backend = trial.draw.once_in(3, "unfused") ? "unfused" : "";
  return options;
}

}  // namespace

void try_rms_norm(Trial& trial) {
  Draw& draw = trial.draw;
  RmsNormProblem problem;
  draw_matrix(trial, kRows, kCols, problem);
  problem.dtype = trial.float_dtype("dtype");
  problem.weight_dtype = trial.float_dtype("weight");
  problem.eps = draw.pick<float>("eps", {{"1e-6", 1e-6f}, {"0", 0.0f}, {"1e-5", 1e-5f}});
  problem.residual = draw.once_in(2, "residual");
  problem.one_plus_weight = draw.once_in(3, "one_plus_weight");
  problem.training = !draw.once_in(6, "inference");
  problem.dg_dtype = trial.float_dtype("dg");
  problem.fp8 = any_fp8(trial);
  const std::int64_t gap = draw.pick("gap", kGaps);
  const PlanOptions options = trial.plan_options();
  const PlanOptions forward_options = fp8_options(trial, problem.fp8, options);
  const auto [rows, cols] = std::array{problem.rows, problem.cols};

  RmsNormForwardArgs forward;
  forward.x = trial.input(problem.dtype, rows, cols, gap);
  if (problem.residual) forward.residual = trial.input(problem.dtype, rows, cols, gap);
  forward.g = trial.vector(problem.weight_dtype, cols);
  if (problem.fp8) {
    forward.fp8 = trial.fp8_output("y.fp8", *problem.fp8, rows, cols);
  } else {
    forward.y = trial.output("y", problem.dtype, rows, cols, gap);
  }
  if (problem.residual) forward.sum = trial.output("sum", problem.dtype, rows, cols, gap);
  if (problem.training) forward.rstd = trial.output_vector("rstd", Dtype::f32, rows);
  trial.run_pass("forward", plan_rms_norm_forward, problem, forward_options, forward);
  if (!problem.training) return;

  RmsNormBackwardArgs backward;
  backward.dy = trial.input(problem.dtype, rows, cols, gap);
  backward.h = trial.input(problem.dtype, rows, cols, gap);
  backward.g = forward.g;
  backward.rstd = trial.positive_vector(rows);
  if (draw.once_in(2, "dsum")) backward.dsum = trial.input(problem.dtype, rows, cols, gap);
  backward.dx = trial.output("dx", problem.dtype, rows, cols, gap);
  if (draw.once_in(2, "dresidual")) {
    backward.dresidual = trial.output("dresidual", problem.dtype, rows, cols, gap);
  }
  backward.dg = trial.output_vector("dg", problem.dg_dtype, cols);
  trial.run_pass("backward", plan_rms_norm_backward, problem, options, backward);
}

void try_gated_activation(Trial& trial) {
  Draw& draw = trial.draw;
  GatedActivationProblem problem;
  draw_matrix(trial, kRows, kCols, problem);
  problem.dtype = trial.float_dtype("dtype");
  problem.activation = static_cast<GateActivation>(draw.pick("activation", {1, 2, 3, 4}));
  problem.row_weight = draw.once_in(3, "row_weight");
  problem.fp8 = any_fp8(trial);
  const std::int64_t gap = draw.pick("gap", kGaps);
  const PlanOptions options = fp8_options(trial, problem.fp8, trial.plan_options());
  const auto [rows, cols] = std::array{problem.rows, problem.cols};

  GatedActivationForwardArgs forward;
  if (draw.once_in(2, "halves")) {
    const TensorView both = trial.input(problem.dtype, rows, 2 * cols);
    forward.gate = make_matrix(both.data, problem.dtype, rows, cols, 2 * cols, trial.device);
    forward.up = forward.gate;
    forward.up.data = static_cast<char*>(both.data) + cols * size_bytes(problem.dtype);
  } else {
    forward.gate = trial.input(problem.dtype, rows, cols, gap);
    forward.up = trial.input(problem.dtype, rows, cols, gap);
  }
  if (problem.row_weight) forward.row_weight = trial.vector(Dtype::f32, rows);
  if (problem.fp8) {
    forward.fp8 = trial.fp8_output("y.fp8", *problem.fp8, rows, cols);
  } else {
    forward.y = trial.output("y", problem.dtype, rows, cols, gap);
  }
  trial.run_pass("forward", plan_gated_activation_forward, problem, options, forward);

  GatedActivationBackwardArgs backward;
  backward.dy = trial.input(problem.dtype, rows, cols, gap);
  backward.gate = forward.gate;
  backward.up = forward.up;
  backward.row_weight = forward.row_weight;
  if (problem.fp8) {
    backward.fp8 = trial.fp8_output("gradients.fp8", *problem.fp8, rows, 2 * cols);
  } else {
    backward.dgate = trial.output("dgate", problem.dtype, rows, cols, gap);
    backward.dup = trial.output("dup", problem.dtype, rows, cols, gap);
  }
  if (problem.row_weight) {
    backward.d_row_weight = trial.output_vector("d_row_weight", Dtype::f32, rows);
  }
  trial.run_pass("backward", plan_gated_activation_backward, problem, options, backward);
}

}  // namespace octet::same
