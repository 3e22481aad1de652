// attention, forward and backward. Rows of the inputs behind the last sequence are NaN, and so is the
// workspace of one of the two calls; the other's is zeros.
#include "check/judge/trial.hpp"
#include "check/ops/attention_reference.hpp"
#include "check/ops/attention_trial.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

namespace octet {
namespace {

constexpr unsigned char kNaNByte = 0xFF;

// The gradient that arrives at lse, which partial results have that are merged.
Tensor random_dlse(const AttentionProblem& problem, const DataOptions& options) {
  if (problem.out_dtype != Dtype::f32) return {};
  return random_matrix(Dtype::f32, lse_rows(problem), lse_cols(problem), 6, options,
                       problem.device);
}

// Rows [first, ...) of a matrix become NaN.
void poison_rows(const TensorView& matrix, std::int64_t first) {
  if (first >= matrix.rows()) return;
  fill(elements_of(rows_of(matrix, first, matrix.rows() - first)), kNaNByte);
}

void fill_tensors(const AttentionProblem& problem, const DataOptions& options,
                  const AttentionTensors& tensors) {
  std::uint32_t stream = 0;
  for (const TensorView& matrix : tensors.matrices()) {
    fill_random(matrix, options.distribution, {options.seed, stream++}, options.threads);
  }
  if (problem.sink) {
    fill_random(as_row(tensors.sink), Distribution::normal, {options.seed, 5}, options.threads);
  }
  if (!problem.offsets_dtype) return;
  SequenceLength sum;
  for (const auto& [queries, keys] : tensors.lengths) {
    sum.queries += queries;
    sum.keys += keys;
  }
  poison_rows(tensors.q, sum.queries);
  poison_rows(tensors.dout, sum.queries);
  if (tensors.forms.packed) return;
  poison_rows(tensors.k, sum.keys);
  poison_rows(tensors.v, sum.keys);
}

void judge_both(const AttentionOutputs& first, const AttentionOutputs& second, GateReport& report) {
  judge_memory("out", first.out, second.out, report);
  judge_memory("lse", first.lse, second.lse, report);
  judge_memory(first.forms.packed ? "dqkv" : "dq", first.dq, second.dq, report);
  if (first.dk) judge_memory("dk", *first.dk, *second.dk, report);
  if (first.dv) judge_memory("dv", *first.dv, *second.dv, report);
  if (first.dsink) judge_memory("dsink", *first.dsink, *second.dsink, report);
}

GateReport judge_calls(const AttentionProblem& problem, const DataOptions& options) {
  const AttentionTensors tensors(problem, options.head_layout,
                                 sequence_lengths(options.sequence_spread, problem, options.seed));
  fill_tensors(problem, options, tensors);
  const Tensor dlse_matrix = random_dlse(problem, options);
  const TensorView dlse = lse_view(problem, dlse_matrix);
  const AttentionOutputs first(problem, options.head_layout, 0);
  // On a GPU rows begin on 16-byte boundaries.
  const std::int64_t gap =
      problem.device.type == DeviceType::cuda ? round_up(options.row_gap, 8) : options.row_gap;
  const AttentionOutputs second(problem, options.head_layout, gap);
  const AttentionBackwardArgs call =
      run_attention(problem, options, tensors, dlse, first, kNaNByte);
  run_attention(problem, options, tensors, dlse, second, 0);
  GateReport report;
  add(report, judge_attention(problem, call, judge_options(options, problem.device)));
  add(report, check_exact_attention(problem, options));
  judge_both(first, second, report);
  return report;
}

}  // namespace

AttentionOutputs::AttentionOutputs(const AttentionProblem& problem, HeadLayout layout,
                                   std::int64_t gap)
    : forms(problem, layout),
      out(*problem.out_dtype, forms.out.rows, forms.out.cols, gap, problem.device),
      lse(Dtype::f32, lse_rows(problem), lse_cols(problem), gap, problem.device),
      dq(problem.dtype, forms.q.rows, forms.q.cols, gap, problem.device) {
  if (!forms.packed) {
    dk.emplace(problem.dtype, forms.k.rows, forms.k.cols, gap, problem.device);
    dv.emplace(problem.dtype, forms.v.rows, forms.v.cols, gap, problem.device);
  }
  if (problem.sink) dsink.emplace(Dtype::f32, 1, problem.heads_q, gap, problem.device);
}

void copy_tensors(const AttentionTensors& from, const AttentionTensors& to) {
  const std::vector<TensorView> sources = from.matrices(), targets = to.matrices();
  for (std::size_t i = 0; i < sources.size(); ++i) copy(sources[i], targets[i]);
  if (from.sink.data() != nullptr) copy(from.sink, to.sink);
}

AttentionBackwardArgs run_attention(const AttentionProblem& problem, const DataOptions& options,
                                    const AttentionTensors& tensors, const TensorView& dlse,
                                    const AttentionOutputs& outputs, unsigned char workspace_byte) {
  const auto run_poisoned = [&](const auto& plan, const auto& args) {
    const Buffer workspace(plan.workspace_bytes, problem.device);
    const auto bytes = static_cast<std::int64_t>(workspace.bytes());
    fill({workspace.data(), 1, bytes, bytes, problem.device}, workspace_byte);
    run(plan, args, {workspace.data(), workspace.bytes()});
    if (problem.device.type == DeviceType::cuda) cuda::synchronize(problem.device.index);
  };
  const PlanOptions plan_options{options.backend, options.threads};
  const AttentionForms& forms = outputs.forms;
  AttentionBackwardArgs args;
  args.inputs = tensors.inputs();
  args.out = forms.out.view(outputs.out.view());
  args.lse = lse_view(problem, outputs.lse.view());
  run_poisoned(plan_attention_forward(problem, plan_options),
               AttentionForwardArgs{args.inputs, args.out, args.lse});
  args.dout = tensors.dout_view();
  args.dlse = dlse;
  args.dq = forms.q.view(outputs.dq.view());
  args.dk = forms.k.view((forms.packed ? outputs.dq : *outputs.dk).view());
  args.dv = forms.v.view((forms.packed ? outputs.dq : *outputs.dv).view());
  if (problem.sink) args.dsink = as_vector(outputs.dsink->view());
  run_poisoned(plan_attention_backward(problem, plan_options), args);
  return args;
}

GateReport check_attention(const AttentionProblem& given, const DataOptions& options) {
  for (const auto& [name, extent] :
       {std::pair<const char*, std::int64_t>("batch", given.batch),
        {"seq_q", given.offsets_dtype ? given.total_q : given.seq_q},
        {"seq_kv", given.offsets_dtype ? given.total_kv : given.seq_kv}}) {
    check_extent("check attention", name, extent);
  }
  // Plans refuse what cannot run before any data is made.
  const AttentionProblem problem =
      plan_attention_forward(given, {options.backend, options.threads}).problem;
  return within_memory("attention", describe(given), [&] { return judge_calls(problem, options); });
}

}  // namespace octet
