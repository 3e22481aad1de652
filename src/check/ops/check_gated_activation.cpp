// gated_activation, forward and backward, on tensors of their own and on halves of one.
#include "check/data/guarded.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/ops/gated_activation_reference.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"
#include "cpu/threads.hpp"

namespace octet {
namespace {

struct Inputs {
  Tensor gate;
  Tensor up;
  Tensor both;  // gate and up again, as the halves of rows with a gap after each
  Tensor dy;
  Tensor row_weight;

  Inputs(const GatedActivationProblem& problem, const DataOptions& options)
      : gate(random_matrix(problem.dtype, problem.rows, problem.cols, 0, options, problem.device)),
        up(random_matrix(problem.dtype, problem.rows, problem.cols, 1, options, problem.device)),
        both(problem.dtype, {problem.rows, 2 * problem.cols + options.row_gap}, problem.device),
        dy(random_matrix(problem.dtype, problem.rows, problem.cols, 2, options, problem.device)) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      fill_random(columns(both, half * problem.cols, problem.cols), options.distribution,
                  {options.seed, half}, options.threads);
    }
    if (problem.row_weight) {
      row_weight = Tensor(Dtype::f32, {problem.rows}, problem.device);
      fill_random(as_row(row_weight), options.distribution, {options.seed, 3}, options.threads);
    }
  }
  TensorView gate_of(int call) const {
    return call == 0 ? gate.view() : columns(both, 0, gate.view().cols());
  }
  TensorView up_of(int call) const {
    return call == 0 ? up.view() : columns(both, up.view().cols(), up.view().cols());
  }
};

struct Outputs {
  WrittenTwice y;
  GuardedMatrix gradients[2];  // dgate beside dup, dense and with a gap
  std::optional<Fp8WrittenTwice> y_fp8;
  std::optional<Fp8WrittenTwice> gradients_fp8;
  GuardedMatrix d_row_weight[2];  // [1, rows]

  Outputs(const GatedActivationProblem& problem, std::int64_t gap)
      : y(problem.dtype, problem.rows, problem.cols, gap, problem.device),
        gradients{{problem.dtype, problem.rows, 2 * problem.cols, 0, problem.device},
                  {problem.dtype, problem.rows, 2 * problem.cols, gap, problem.device}},
        d_row_weight{{Dtype::f32, 1, problem.rows, 0, problem.device},
                     {Dtype::f32, 1, problem.rows, 0, problem.device}} {
    if (problem.fp8) {
      y_fp8.emplace(*problem.fp8, problem.rows, problem.cols, problem.device);
      gradients_fp8.emplace(*problem.fp8, problem.rows, 2 * problem.cols, problem.device);
    }
  }
};

// Forward and backward. Without fp8 in the problem, they write the plain outputs.
void run_call(const GatedActivationProblem& problem, const PlanOptions& options,
              const Inputs& inputs, const Outputs& outputs, const TensorView& d_row_weight,
              int call) {
  GatedActivationForwardArgs forward;
  forward.gate = inputs.gate_of(call);
  forward.up = inputs.up_of(call);
  forward.row_weight = inputs.row_weight;
  forward.y = outputs.y.view(call);
  if (problem.fp8) forward.fp8 = outputs.y_fp8->copies(call);
  run_once(plan_gated_activation_forward(problem, options), forward, problem.device);

  const TensorView& gradients = outputs.gradients[call].view();
  GatedActivationBackwardArgs backward;
  backward.dy = inputs.dy;
  backward.gate = forward.gate;
  backward.up = forward.up;
  backward.row_weight = forward.row_weight;
  backward.dgate = columns(gradients, 0, problem.cols);
  backward.dup = columns(gradients, problem.cols, problem.cols);
  if (problem.fp8) backward.fp8 = outputs.gradients_fp8->copies(call);
  backward.d_row_weight = as_vector(d_row_weight);
  run_once(plan_gated_activation_backward(problem, options), backward, problem.device);
}

// Judges d_row_weight, a sum over each row, for the judged rows only.
void judge_d_row_weight(const GuardedMatrix (&given)[2], const GatedActivationReference& reference,
                        const std::vector<std::int64_t>& rows, const JudgeOptions& options,
                        GateReport& report) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const DecodedRows all(as_column(as_vector(given[0].view())), rows);
  const Tensor judged(Dtype::f32, {1, count});
  std::vector<double> wanted(rows.size());
  parallel_for(options.threads != 0 ? options.threads : default_threads(), count,
               [&](std::int64_t i) {
                 const std::int64_t row = rows[static_cast<std::size_t>(i)];
                 double value = 0;
                 all.read(row, {&value, 1});
                 static_cast<float*>(judged.data())[i] = static_cast<float>(value);
                 wanted[static_cast<std::size_t>(i)] = reference.d_row_weight(row);
               });
  add(report, judge_elements("d_row_weight", {judged, row_of(wanted)}, options));
  judge_memory("d_row_weight", given[0], given[1], report);
}

GateReport judge_outputs(const GatedActivationProblem& problem, const Inputs& inputs,
                         const Outputs& outputs, const JudgeOptions& options) {
  const std::vector<std::int64_t> rows = judged_rows(problem.rows, problem.cols, options);
  const GatedActivationReference reference(problem.activation, inputs.dy, inputs.gate, inputs.up,
                                           inputs.row_weight, rows);
  const auto& [dense, gapped] = outputs.gradients;
  GateReport report;
  outputs.y.judge("y", rows_of(reference, &GatedActivationReference::y_row), options, report);
  add(report, judge_elements("dgate",
                             {columns(dense.view(), 0, problem.cols),
                              rows_of(reference, &GatedActivationReference::dgate_row)},
                             options));
  add(report, judge_elements("dup",
                             {columns(dense.view(), problem.cols, problem.cols),
                              rows_of(reference, &GatedActivationReference::dup_row)},
                             options));
  judge_memory("dgate, dup", dense, gapped, report);
  if (problem.row_weight) {
    judge_d_row_weight(outputs.d_row_weight, reference, rows, options, report);
  }
  if (problem.fp8) {
    outputs.y_fp8->judge("y.fp8.", outputs.y.view(0), options, report);
    outputs.gradients_fp8->judge("dgate, dup.fp8.", dense.view(), options, report);
  }
  return report;
}

GateReport judge_gated_activation(const GatedActivationProblem& problem,
                                  const DataOptions& options) {
  const Inputs inputs(problem, options);
  const Outputs outputs(problem, options.row_gap);
  const Tensor spare(Dtype::f32, {1, problem.rows}, problem.device);
  for (int call = 0; call < 2; ++call) {
    run_call(problem, {options.backend, options.threads}, inputs, outputs,
             outputs.d_row_weight[call].view(), call);
    if (!problem.fp8) continue;
    // The plain output of the operator is the input of the quantiser.
    GatedActivationProblem plain = problem;
    plain.fp8.reset();
    run_call(plain, {"", options.threads}, inputs, outputs, spare, call);
  }
  return judge_outputs(problem, inputs, outputs, judge_options(options, problem.device));
}

}  // namespace

GateReport check_gated_activation(const GatedActivationProblem& problem,
                                  const DataOptions& options) {
  check_extent("check gated_activation", "rows", problem.rows);
  // Plans refuse what cannot run before any data is made.
  (void)plan_gated_activation_forward(problem, {options.backend, options.threads});
  return within_memory("gated_activation", describe(problem),
                       [&] { return judge_gated_activation(problem, options); });
}

}  // namespace octet
