// gated_activation, forward and backward, on tensors of their own and on halves of one. With groups,
// rows of inputs behind the last group are NaN, and those of outputs hold a pattern that stays if
// they are not to be written.
#include "check/data/guarded.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_groups.hpp"
#include "check/judge/written_twice.hpp"
#include "check/ops/gated_activation_reference.hpp"
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "core/views.hpp"
#include "cpu/threads.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/gated_activation/problem.hpp"

#include <numeric>

namespace octet {
namespace {

constexpr unsigned char kNanByte = 0xFF;
constexpr unsigned char kTailByte = 0x3C;  // 0.0115 in f32 and bf16, 1.06 in f16

// Which rows belong to groups, and what outputs hold behind them.
struct GroupedRows {
  std::vector<std::int64_t> sizes;  // empty: no groups
  std::int64_t rows = 0;            // that are computed
  GroupTail tail = GroupTail::zero;

  GroupedRows(const GatedActivationProblem& problem, const DataOptions& options)
      : rows(problem.rows), tail(problem.tail) {
    if (problem.groups == 0) return;
    sizes = group_sizes(options.group_spread, problem.groups, problem.rows, options.seed);
    rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
  bool keep_tails() const { return !sizes.empty() && tail == GroupTail::untouched; }
  double tail_value(Dtype dtype) const {
    unsigned char bytes[4];
    std::fill(bytes, bytes + 4, kTailByte);
    return tail == GroupTail::zero ? 0 : load_f32(bytes, 0, dtype);
  }
  // The rows of a reference, with what lies behind the last group.
  ReferenceRow reference(const ReferenceRow& row_of, Dtype dtype) const {
    return [this, row_of, dtype](std::int64_t row, std::span<double> values) {
      if (row < rows) return row_of(row, values);
      std::fill(values.begin(), values.end(), tail_value(dtype));
    };
  }
};

struct Inputs {
  Tensor gate;
  Tensor up;
  Tensor both;  // gate and up again, as the halves of rows with a gap after each
  Tensor dy;
  Tensor row_weight;
  Tensor table;

  Inputs(const GatedActivationProblem& problem, const GroupedRows& groups,
         const DataOptions& options)
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
    if (problem.groups == 0) return;
    table = make_group_table(groups.sizes, problem.rows, problem.device);
    const std::int64_t rest = problem.rows - groups.rows;
    for (const Tensor* tensor : {&gate, &up, &both, &dy}) {
      fill(elements_of(octet::rows_of(tensor->view(), groups.rows, rest)), kNanByte);
    }
    if (problem.row_weight) {
      fill(elements_of(columns(as_row(row_weight), groups.rows, rest)), kNanByte);
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
  std::optional<Fp8GroupsWrittenTwice> y_groups;  // in place of y_fp8
  std::optional<Fp8GroupsWrittenTwice> gradients_groups;
  GuardedMatrix d_row_weight[2];  // [1, rows]

  Outputs(const GatedActivationProblem& problem, const GroupedRows& groups, std::int64_t gap)
      : y(problem.dtype, problem.rows, problem.cols, gap, problem.device),
        gradients{{problem.dtype, problem.rows, 2 * problem.cols, 0, problem.device},
                  {problem.dtype, problem.rows, 2 * problem.cols, gap, problem.device}},
        d_row_weight{{Dtype::f32, 1, problem.rows, 0, problem.device},
                     {Dtype::f32, 1, problem.rows, 0, problem.device}} {
    if (groups.keep_tails()) hold_pattern(problem);
    if (!problem.fp8) return;
    const auto& [rows, cols] = std::tie(problem.rows, problem.cols);
    if (problem.groups > 0) {
      y_groups.emplace(*problem.fp8, groups.sizes, rows, cols, problem.tail, problem.device);
      gradients_groups.emplace(*problem.fp8, groups.sizes, rows, 2 * cols, problem.tail,
                               problem.device);
    } else {
      y_fp8.emplace(*problem.fp8, rows, cols, problem.device);
      gradients_fp8.emplace(*problem.fp8, rows, 2 * cols, problem.device);
    }
  }

  Fp8Copies y_copies(int call) const {
    return y_groups ? y_groups->copies(call) : y_fp8->copies(call);
  }
  Fp8Copies gradient_copies(int call) const {
    return gradients_groups ? gradients_groups->copies(call) : gradients_fp8->copies(call);
  }

 private:
  void hold_pattern(const GatedActivationProblem& problem) {
    const auto pattern = [&](Dtype dtype, std::int64_t rows, std::int64_t cols) {
      Tensor tensor(dtype, {rows, cols}, problem.device);
      fill(elements_of(tensor), kTailByte);
      return tensor;
    };
    y.fill_from(pattern(problem.dtype, problem.rows, problem.cols));
    for (int call = 0; call < 2; ++call) {
      gradients[call].fill_from(pattern(problem.dtype, problem.rows, 2 * problem.cols));
      d_row_weight[call].fill_from(pattern(Dtype::f32, 1, problem.rows));
    }
  }
};

// The implementations of the two passes that are forced, if any, and their threads.
struct Forced {
  PlanOptions forward;
  PlanOptions backward;
};

// Those of the operator.
Forced forced_of(const DataOptions& options) {
  const std::string backward =
      forced_for_backward(options.backend, gated_activation_forward_implementations(),
                          gated_activation_backward_implementations());
  return {{options.backend, options.threads}, {backward, options.threads}};
}

// Those of the plain output, which is the input of the quantiser.
Forced forced_plain(const GatedActivationProblem& problem, int threads) {
  const std::string forward =
      plain_backend(gated_activation_forward_implementations(), problem, threads);
  const std::string backward =
      plain_backend(gated_activation_backward_implementations(), problem, threads);
  return {{forward, threads}, {backward, threads}};
}

// Forward and backward. Without fp8 in the problem, they write the plain outputs.
void run_call(const GatedActivationProblem& problem, const Forced& forced, const Inputs& inputs,
              const Outputs& outputs, const TensorView& d_row_weight, int call) {
  GatedActivationForwardArgs forward;
  forward.gate = inputs.gate_of(call);
  forward.up = inputs.up_of(call);
  forward.row_weight = inputs.row_weight;
  forward.y = outputs.y.view(call);
  if (problem.fp8) forward.fp8 = outputs.y_copies(call);
  forward.table = inputs.table;
  run_once(plan_gated_activation_forward(problem, forced.forward), forward, problem.device);

  const TensorView& gradients = outputs.gradients[call].view();
  GatedActivationBackwardArgs backward;
  backward.dy = inputs.dy;
  backward.gate = forward.gate;
  backward.up = forward.up;
  backward.row_weight = forward.row_weight;
  backward.dgate = columns(gradients, 0, problem.cols);
  backward.dup = columns(gradients, problem.cols, problem.cols);
  if (problem.fp8) backward.fp8 = outputs.gradient_copies(call);
  backward.table = inputs.table;
  backward.d_row_weight = as_vector(d_row_weight);
  run_once(plan_gated_activation_backward(problem, forced.backward), backward, problem.device);
}

// Judges d_row_weight, a sum over each row, for the judged rows only.
void judge_d_row_weight(const GuardedMatrix (&given)[2], const GatedActivationReference& reference,
                        const GroupedRows& groups, const std::vector<std::int64_t>& rows,
                        const JudgeOptions& options, GateReport& report) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const DecodedRows all(as_column(as_vector(given[0].view())), rows);
  const Tensor judged(Dtype::f32, {1, count});
  std::vector<double> wanted(rows.size());
  parallel_for(
      options.threads != 0 ? options.threads : default_threads(), count, [&](std::int64_t i) {
        const std::int64_t row = rows[static_cast<std::size_t>(i)];
        double value = 0;
        all.read(row, {&value, 1});
        static_cast<float*>(judged.data())[i] = static_cast<float>(value);
        wanted[static_cast<std::size_t>(i)] =
            row < groups.rows ? reference.d_row_weight(row) : groups.tail_value(Dtype::f32);
      });
  add(report, judge_elements("d_row_weight", {judged, row_of(wanted)}, options));
  judge_memory("d_row_weight", given[0], given[1], report);
}

GateReport judge_outputs(const GatedActivationProblem& problem, const GroupedRows& groups,
                         const Inputs& inputs, const Outputs& outputs,
                         const JudgeOptions& options) {
  const std::vector<std::int64_t> rows = judged_rows(problem.rows, problem.cols, options);
  const GatedActivationReference reference(problem.activation, inputs.dy, inputs.gate, inputs.up,
                                           inputs.row_weight, rows);
  const auto& [dense, gapped] = outputs.gradients;
  GateReport report;
  using Row = void (GatedActivationReference::*)(std::int64_t, std::span<double>) const;
  const auto wanted = [&](Row row) {
    return groups.reference(rows_of(reference, row), problem.dtype);
  };
  outputs.y.judge("y", wanted(&GatedActivationReference::y_row), options, report);
  add(report, judge_elements("dgate",
                             {columns(dense.view(), 0, problem.cols),
                              wanted(&GatedActivationReference::dgate_row)},
                             options));
  add(report, judge_elements("dup",
                             {columns(dense.view(), problem.cols, problem.cols),
                              wanted(&GatedActivationReference::dup_row)},
                             options));
  judge_memory("dgate, dup", dense, gapped, report);
  if (problem.row_weight) {
    judge_d_row_weight(outputs.d_row_weight, reference, groups, rows, options, report);
  }
  if (outputs.y_groups) {
    outputs.y_groups->judge("y.fp8.", outputs.y.view(0), options, report);
    outputs.gradients_groups->judge("dgate, dup.fp8.", dense.view(), options, report);
  }
  if (outputs.y_fp8) {
    outputs.y_fp8->judge("y.fp8.", outputs.y.view(0), options, report);
    outputs.gradients_fp8->judge("dgate, dup.fp8.", dense.view(), options, report);
  }
  return report;
}

GateReport judge_gated_activation(const GatedActivationProblem& problem,
                                  const DataOptions& options) {
  const GroupedRows groups(problem, options);
  const Inputs inputs(problem, groups, options);
  const Outputs outputs(problem, groups, options.row_gap);
  const Tensor spare(Dtype::f32, {1, problem.rows}, problem.device);
  for (int call = 0; call < 2; ++call) {
    run_call(problem, forced_of(options), inputs, outputs, outputs.d_row_weight[call].view(), call);
    if (!problem.fp8) continue;
    run_call(without_fp8(problem), forced_plain(problem, options.threads), inputs, outputs, spare,
             call);
  }
  return judge_outputs(problem, groups, inputs, outputs, judge_options(options, problem.device));
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
