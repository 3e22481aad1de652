// fp8_grouped_linear, forward and backward: every product of every group, with operands that the
// oracle casts from the rows of the group alone. On CUDA and with many groups this holds for some of
// them, and all must equal the dense layer on their rows.
#include "check/judge/compare_outputs.hpp"
#include "check/ops/grouped_product.hpp"
#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "core/views.hpp"
#include "ops/fp8_grouped_linear/parts.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace octet {
namespace {

struct Inputs {
  Tensor x;       // [T, K]
  Tensor w;       // [groups * N, K]
  Tensor dy;      // [T, N]
  Tensor old_dw;  // [groups * N, K], if dw is accumulated

  Inputs(const Fp8GroupedLinearProblem& p, const GroupedRows& rows, const DataOptions& options)
      : x(rows.random_rows(p.dtype, p.k, 0, options)),
        w(random_batch(p.dtype, p.groups, p.n, p.k, 1, options, p.device)),
        dy(rows.random_rows(p.dtype, p.n, 2, options)) {
    if (p.accumulate_dw) {
      old_dw = random_batch(p.dw_dtype, p.groups, p.n, p.k, 3, options, p.device);
    }
  }
};

struct Outputs {
  GroupedOutput y;
  GroupedOutput dx;
  GroupedOutput dw;

  Outputs(const Fp8GroupedLinearProblem& p, const GroupedRows& rows, const Inputs& inputs,
          const DataOptions& options)
      : y(rows, p.tail, p.dtype, p.n, options),
        dx(rows, p.tail, p.dtype, p.k, options),
        dw(rows, p.dw_dtype, p.n, p.k, inputs.old_dw.view(), options) {}
};

// One forward and one backward, with saved tensors of their own.
void run_layer(const Fp8GroupedLinearProblem& p, const DataOptions& options, const Inputs& inputs,
               const GroupedRows& rows, const Outputs& outputs, int call) {
  const Fp8LinearOptions backends{options.backend, options.quantize_backend, options.threads};
  const Fp8GroupedLinearSavedLayout layout = fp8_grouped_linear_saved_layout(p);
  const QuantizedTensor x_t(layout.x_t, p.device);
  QuantizedTensor w_t;
  QuantizedTensor w;
  Fp8GroupedLinearForwardArgs forward;
  forward.x = inputs.x;
  forward.w = as_batch(inputs.w, p.groups);
  if (p.weights_quantized) {
    const Fp8GroupedLinearWeightsLayout weights = fp8_grouped_linear_weights_layout(p);
    w = QuantizedTensor(weights.w, p.device);
    w_t = QuantizedTensor(weights.w_t, p.device);
    QuantizeProblem cast;
    cast.rows = p.n;
    cast.cols = p.k;
    cast.batch = p.groups;
    cast.input_dtype = p.dtype;
    cast.format = p.format;
    cast.block = cast.transposed_block = kBlock128x128;
    cast.amax_floor = p.amax_floor;
    cast.pow2_scales = p.pow2_scales;
    cast.device = p.device;
    run_once(plan_quantize(cast, {options.quantize_backend, options.threads}),
             QuantizeArgs{forward.w, w, w_t}, p.device);
    forward.weights = {w, w_t};
  } else {
    w_t = QuantizedTensor(layout.w_t, p.device);
  }
  forward.saved = {x_t, w_t};
  forward.y = outputs.y.view(call);
  forward.table = rows.table();
  run_once(plan_fp8_grouped_linear_forward(p, backends), forward, p.device);
  Fp8GroupedLinearBackwardArgs backward;
  backward.dy = inputs.dy;
  backward.saved = forward.saved;
  backward.dx = outputs.dx.view(call);
  backward.dw = outputs.dw.view(call);
  backward.table = rows.table();
  run_once(plan_fp8_grouped_linear_backward(p, backends), backward, p.device);
}

// Judges the three products of every group, tensor after tensor.
class LayerJudge {
 public:
  LayerJudge(const Fp8GroupedLinearProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options), judge_(judge_options(options, problem.device)) {}

  void add_group(std::int64_t group, const Inputs& inputs, const GroupedRows& rows,
                 const Outputs& outputs) {
    GateReport casts;  // gate Q, on CUDA
    const TensorView x = rows.of(inputs.x, group);
    const TensorView dy = rows.of(inputs.dy, group);
    const TensorView w = matrix_of(as_batch(inputs.w, problem_.groups), group);
    const BlockShape x_t_block =
        problem_.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128;
    const auto cast = [&](const TensorView& input, Transpose transpose, Dtype format,
                          BlockShape block) {
      const OracleRules rules{format, block, problem_.amax_floor, problem_.pow2_scales};
      return QuantizedOperand("operand", input, transpose, rules, options_, casts);
    };
    const auto x_q = cast(x, Transpose::no, problem_.format, kBlock1x128);
    const auto w_q = cast(w, Transpose::no, problem_.format, kBlock128x128);
    const auto dy_q = cast(dy, Transpose::no, problem_.grad_format, kBlock1x128);
    const auto dy_t = cast(dy, Transpose::yes, problem_.grad_format, kBlock1x128);
    const auto x_t = cast(x, Transpose::yes, problem_.format, x_t_block);
    casts_.add(group, std::move(casts.results));
    const TensorView old = outputs.dw.old(group);
    add(y_, "y", group, problem_.format, {outputs.y.of(group), x, w},
        {outputs.y.of(group), x_q.view(), w_q.view()});
    add(dx_, "dx", group, problem_.grad_format, {outputs.dx.of(group), dy, transposed(w)},
        {outputs.dx.of(group), dy_q.view(), transposed(w_q.view())});
    add(dw_, "dw", group, problem_.grad_format,
        {outputs.dw.of(group), transposed(dy), transposed(x), old},
        {outputs.dw.of(group), dy_t.view(), x_t.view(), old});
  }

  void finish(const Outputs& outputs, GateReport& report) {
    casts_.move_to(report);
    y_.move_to(report);
    outputs.y.judge_memory("y", report);
    dx_.move_to(report);
    outputs.dx.judge_memory("dx", report);
    dw_.move_to(report);
    outputs.dw.judge_memory("dw", report);
  }

 private:
  void add(WorstOfGroups& worst, const char* tensor, std::int64_t group, Dtype a_format,
           const ProductClaim& exact, const ProductClaim& quantized) {
    const QuantizedFormats formats{a_format, problem_.format, problem_.amax_floor,
                                   problem_.pow2_scales};
    worst.add(group, {judge_g1(tensor, exact, formats, judge_)});
    worst.add(group, judge_kernel(tensor, quantized, judge_));
  }

  const Fp8GroupedLinearProblem& problem_;
  const DataOptions& options_;
  JudgeOptions judge_;
  WorstOfGroups casts_, y_, dx_, dw_;
};

// Whether a group is judged against the reference: on CUDA with more than four groups, the first, the
// last, the longest and the shortest of those with rows.
std::vector<bool> judged_groups(const Fp8GroupedLinearProblem& problem, const GroupedRows& rows) {
  constexpr std::int64_t kAll = 4;
  std::vector<std::int64_t> filled;
  for (std::int64_t group = 0; group < rows.groups(); ++group) {
    if (rows.size(group) > 0) filled.push_back(group);
  }
  std::vector<bool> judged(static_cast<std::size_t>(rows.groups()));
  const auto judge = [&](std::int64_t group) { judged[static_cast<std::size_t>(group)] = true; };
  if (problem.device.type == DeviceType::cpu || std::ssize(filled) <= kAll) {
    std::ranges::for_each(filled, judge);
    return judged;
  }
  const auto size = [&](std::int64_t group) { return rows.size(group); };
  judge(filled.front());
  judge(filled.back());
  judge(std::ranges::max(filled, {}, size));
  judge(std::ranges::min(filled, {}, size));
  return judged;
}

// Gate D: every group has the bits of fp8_linear on its rows alone.
class DenseJudge {
 public:
  DenseJudge(const Fp8GroupedLinearProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options) {}

  void add_group(std::int64_t group, const Inputs& inputs, const GroupedRows& rows,
                 const Outputs& outputs) {
    Fp8LinearProblem p = dense_layer(problem_);
    p.m = rows.size(group);
    p.weights_quantized = false;  // the same bits either way
    Fp8Linear layer(p, {{}, options_.quantize_backend, options_.threads});
    const Tensor y(p.dtype, {p.m, p.n}, p.device);
    const Tensor dx(p.dtype, {p.m, p.k}, p.device);
    const Tensor dw(p.dw_dtype, {p.n, p.k}, p.device);
    if (p.accumulate_dw) copy(outputs.dw.old(group), dw);
    const TensorView w = matrix_of(as_batch(inputs.w, problem_.groups), group);
    layer.forward(rows.of(inputs.x, group), w, y);
    layer.backward(rows.of(inputs.dy, group), dx, dw);
    ++groups_;
    y_ += compare_whole_outputs(outputs.y.of(group), y).different;
    dx_ += compare_whole_outputs(outputs.dx.of(group), dx).different;
    dw_ += compare_whole_outputs(outputs.dw.of(group), dw).different;
  }

  void finish(GateReport& report) const {
    const auto add = [&](const char* tensor, std::int64_t different) {
      report.results.push_back({"D", tensor, different == 0,
                                text(different, " elements differ in ", groups_, " groups"),
                                "equal bits", std::numeric_limits<double>::quiet_NaN()});
    };
    add("y", y_);
    add("dx", dx_);
    add("dw", dw_);
  }

 private:
  const Fp8GroupedLinearProblem& problem_;
  const DataOptions& options_;
  std::int64_t groups_ = 0;
  std::int64_t y_ = 0;
  std::int64_t dx_ = 0;
  std::int64_t dw_ = 0;
};

GateReport judge_layer(const Fp8GroupedLinearProblem& problem, const DataOptions& options) {
  GateReport report;
  const GroupedRows rows(problem.groups, problem.rows, options, problem.device);
  const Inputs inputs(problem, rows, options);
  const Outputs outputs(problem, rows, inputs, options);
  for (const int call : {0, 1}) run_layer(problem, options, inputs, rows, outputs, call);
  LayerJudge judge(problem, options);
  DenseJudge dense(problem, options);
  const std::vector<bool> judged = judged_groups(problem, rows);
  for (std::int64_t group = 0; group < problem.groups; ++group) {
    if (rows.size(group) == 0) continue;
    if (judged[static_cast<std::size_t>(group)]) judge.add_group(group, inputs, rows, outputs);
    dense.add_group(group, inputs, rows, outputs);
  }
  judge.finish(outputs, report);
  dense.finish(report);
  return report;
}

}  // namespace

GateReport check_fp8_grouped_linear(const Fp8GroupedLinearProblem& problem,
                                    const DataOptions& options) {
  // Plans refuse what cannot run before any data is made.
  (void)plan_fp8_grouped_linear_forward(
      problem, {options.backend, options.quantize_backend, options.threads});
  return within_memory("fp8_grouped_linear", describe(problem),
                       [&] { return judge_layer(problem, options); });
}

}  // namespace octet
