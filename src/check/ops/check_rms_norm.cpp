// rms_norm, forward and backward, with its residual and its FP8 output.
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/ops/rms_norm_reference.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/rms_norm/problem.hpp"

namespace octet {
namespace {

struct Inputs {
  Tensor x;
  Tensor residual;
  Tensor g;
  Tensor dy;
  Tensor dsum;

  Inputs(const RmsNormProblem& problem, const DataOptions& options) {
    const auto random_rows = [&](std::uint32_t stream) {
      return random_matrix(problem.dtype, problem.rows, problem.cols, stream, options,
                           problem.device);
    };
    x = random_rows(0);
    g = Tensor(problem.weight_dtype, {problem.cols}, problem.device);
    fill_random(as_row(g), options.distribution, {options.seed, 1}, options.threads);
    if (problem.residual) residual = random_rows(2);
    if (!problem.training) return;
    dy = random_rows(3);
    dsum = random_rows(4);
  }
  RmsNormInputs views() const { return {x, residual, g, dy, dsum}; }
};

struct Outputs {
  WrittenTwice y;
  std::optional<Fp8WrittenTwice> fp8;
  std::optional<WrittenTwice> sum;
  std::optional<WrittenTwice> rstd;
  std::optional<WrittenTwice> dx;
  std::optional<WrittenTwice> dresidual;
  std::optional<WrittenTwice> dg;

  Outputs(const RmsNormProblem& problem, std::int64_t gap) : y(matrix(problem, gap)) {
    if (problem.fp8) fp8.emplace(*problem.fp8, problem.rows, problem.cols, problem.device);
    if (problem.residual) sum.emplace(matrix(problem, gap));
    if (!problem.training) return;
    rstd.emplace(Dtype::f32, problem.rows, problem.device);
    dx.emplace(matrix(problem, gap));
    if (problem.residual) dresidual.emplace(matrix(problem, gap));
    dg.emplace(problem.dg_dtype, problem.cols, problem.device);
  }

 private:
  static WrittenTwice matrix(const RmsNormProblem& problem, std::int64_t gap) {
    return {problem.dtype, problem.rows, problem.cols, gap, problem.device};
  }
};

// Forward, then backward on what forward wrote. With fp8 there is no y.
void run_call(const RmsNormProblem& problem, const DataOptions& options, const Inputs& inputs,
              const Outputs& outputs, int call) {
  RmsNormForwardArgs forward;
  forward.x = inputs.x;
  forward.residual = inputs.residual;
  forward.g = inputs.g;
  forward.y = outputs.y.view(call);
  if (problem.fp8) forward.fp8 = outputs.fp8->copies(call);
  forward.sum = view_of(outputs.sum, call);
  forward.rstd = view_of(outputs.rstd, call);
  run_once(plan_rms_norm_forward(problem, {options.backend, options.threads}), forward,
           problem.device);
  if (!problem.training) return;
  RmsNormBackwardArgs backward;
  backward.dy = inputs.dy;
  backward.h = problem.residual ? forward.sum : forward.x;
  backward.g = inputs.g;
  backward.rstd = forward.rstd;
  backward.dsum = inputs.dsum;
  backward.dx = view_of(outputs.dx, call);
  backward.dresidual = view_of(outputs.dresidual, call);
  backward.dg = view_of(outputs.dg, call);
  const std::string backend = forced_for_backward(
      options.backend, rms_norm_forward_implementations(), rms_norm_backward_implementations());
  run_once(plan_rms_norm_backward(problem, {backend, options.threads}), backward, problem.device);
}

// Computes the plain output of the operator, which is the input of the quantiser.
void run_plain(RmsNormProblem problem, const DataOptions& options, const Inputs& inputs,
               const Outputs& outputs) {
  problem.fp8.reset();
  problem.training = false;
  const Tensor sum(problem.dtype, {problem.rows, problem.cols}, problem.device);
  const std::string backend =
      plain_backend(rms_norm_forward_implementations(), problem, options.threads);
  for (int call = 0; call < 2; ++call) {
    RmsNormForwardArgs forward;
    forward.x = inputs.x;
    forward.residual = inputs.residual;
    forward.g = inputs.g;
    forward.y = outputs.y.view(call);
    forward.sum = sum;
    run_once(plan_rms_norm_forward(problem, {backend, options.threads}), forward, problem.device);
  }
}

void judge_outputs(const RmsNormProblem& problem, const Inputs& inputs, const Outputs& outputs,
                   const JudgeOptions& options, GateReport& report) {
  const RmsNormReference reference(problem, inputs.views(),
                                   judged_rows(problem.rows, problem.cols, options));
  outputs.y.judge("y", rows_of(reference, &RmsNormReference::y_row), options, report);
  if (outputs.fp8) outputs.fp8->judge("fp8.", outputs.y.view(0), options, report);
  if (outputs.sum) {
    outputs.sum->judge_exact("sum", rows_of(reference, &RmsNormReference::sum_row), options,
                             report);
  }
  if (!problem.training) return;
  const RmsNormSums sums(problem, inputs.views(), options.threads);
  outputs.rstd->judge("rstd", row_of(sums.rstd), options, report);
  outputs.dx->judge("dx", rows_of(reference, &RmsNormReference::dx_row), options, report);
  if (outputs.dresidual) {
    const DecodedRows dx(outputs.dx->view(0), judged_rows(problem.rows, problem.cols, options));
    outputs.dresidual->judge_exact(
        "dresidual", [&](std::int64_t row, std::span<double> values) { dx.read(row, values); },
        options, report);
  }
  outputs.dg->judge("dg", row_of(sums.dg), options, report);
}

GateReport judge_rms_norm(const RmsNormProblem& problem, const DataOptions& options) {
  const Inputs inputs(problem, options);
  const Outputs outputs(problem, options.row_gap);
  run_call(problem, options, inputs, outputs, 0);
  run_call(problem, options, inputs, outputs, 1);
  if (problem.fp8) run_plain(problem, options, inputs, outputs);
  GateReport report;
  judge_outputs(problem, inputs, outputs, judge_options(options, problem.device), report);
  return report;
}

}  // namespace

GateReport check_rms_norm(const RmsNormProblem& problem, const DataOptions& options) {
  check_extent("check rms_norm", "rows", problem.rows);
  // Plans refuse what cannot run before any data is made.
  (void)plan_rms_norm_forward(problem, {options.backend, options.threads});
  return within_memory("rms_norm", describe(problem),
                       [&] { return judge_rms_norm(problem, options); });
}

}  // namespace octet
