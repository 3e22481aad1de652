// fp8_linear, forward and backward: every product, and the copies that are saved for backward.
#include "check/judge/trial.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "core/views.hpp"

#include <numeric>

namespace octet {
namespace {

// What the layer reads.
struct Inputs {
  Tensor x;          // [M, K]
  Tensor w;          // [N, K]
  Tensor dy;         // [M, N]
  Tensor old_dw;     // [N, K], if dw is accumulated
  Tensor bias;       // [1, N], if the layer has one
  Tensor old_dbias;  // [1, N], if dbias is accumulated

  Inputs(const Fp8LinearProblem& problem, const DataOptions& options)
      : x(random_matrix(problem.dtype, problem.m, problem.k, 0, options, problem.device)),
        w(random_matrix(problem.dtype, problem.n, problem.k, 1, options, problem.device)) {
    if (problem.bias_dtype) {
      bias = random_matrix(*problem.bias_dtype, 1, problem.n, 4, options, problem.device);
    }
    if (!problem.training) return;
    dy = random_matrix(problem.dtype, problem.m, problem.n, 2, options, problem.device);
    if (problem.dbias_dtype && problem.accumulate_dw) {
      old_dbias = random_matrix(*problem.dbias_dtype, 1, problem.n, 5, options, problem.device);
    }
    if (problem.need_dw && problem.accumulate_dw) {
      old_dw = random_matrix(problem.dw_dtype, problem.n, problem.k, 3, options, problem.device);
    }
  }
};

// How the tensors of a layer are quantised, each in the orientation of its product.
struct LayerRules {
  OracleRules x;
  OracleRules w;  // and w^T
  OracleRules dy;
  OracleRules x_t;

  explicit LayerRules(const Fp8LinearProblem& problem) {
    BlockShape strips = kBlock1x128;
    BlockShape squares = kBlock128x128;
    if (problem.granularity == Granularity::tensorwise) strips = squares = kWholeTensor;
    if (problem.granularity == Granularity::rowwise) strips = squares = kEachRow;
    const auto rules = [&](Dtype format, BlockShape block) {
      return OracleRules{.format = format,
                         .block = block,
                         .amax_floor = problem.amax_floor,
                         .pow2_scales = problem.pow2_scales,
                         .fold_mx = problem.granularity == Granularity::mxfp8,
                         .mx_scale = problem.mx_scale};
    };
    x = rules(problem.format, strips);
    w = rules(problem.format, squares);
    dy = rules(problem.grad_format, strips);
    x_t = rules(problem.format, problem.wgrad_blocks == WgradBlocks::square ? squares : strips);
  }
};

// The quantised operands of the three products, made by the oracle or judged by it.
struct Operands {
  LayerRules rules;
  QuantizedOperand x;     // [M, K]
  QuantizedOperand w;     // [N, K]
  QuantizedOperand dy;    // [M, N]
  QuantizedOperand dy_t;  // [N, M]
  QuantizedOperand x_t;   // [K, M]
  QuantizedView w_t;      // [K, N]: the bytes and scales of w, unless each row has a scale

  Operands(const Fp8LinearProblem& problem, const Inputs& inputs, const DataOptions& options,
           GateReport& report)
      : rules(problem) {
    const auto cast = [&](const char* tensor, const Tensor& input, Transpose transpose,
                          const OracleRules& operand) {
      return QuantizedOperand(tensor, input, transpose, operand, options, report);
    };
    x = cast("quantised x", inputs.x, Transpose::no, rules.x);
    w = cast("quantised w", inputs.w, Transpose::no, rules.w);
    w_t = transposed(w.view());
    if (!problem.training) return;
    if (problem.need_dx) {
      dy = cast("quantised dy", inputs.dy, Transpose::no, rules.dy);
      if (rules.w.block == kEachRow) {
        w_rows_ = cast("quantised w^T", inputs.w, Transpose::yes, rules.w);
        w_t = w_rows_.view();
      }
    }
    if (!problem.need_dw) return;
    dy_t = cast("quantised dy^T", inputs.dy, Transpose::yes, rules.dy);
    x_t = cast("quantised x^T", inputs.x, Transpose::yes, rules.x_t);
  }

 private:
  QuantizedOperand w_rows_;  // w^T with scales of its own
};

// The outputs of one call of forward and backward.
struct Outputs {
  GuardedMatrix y;
  std::optional<GuardedMatrix> dx;
  std::optional<GuardedMatrix> dw;
  std::optional<GuardedMatrix> dbias;  // [1, N]
  std::optional<GuardedQuantized> x_t;
  std::optional<GuardedQuantized> w_t;

  Outputs(const Fp8LinearProblem& problem, const Inputs& inputs, std::int64_t gap,
          bool owns_padding)
      : y(problem.dtype, problem.m, problem.n, gap, problem.device) {
    const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
    if (layout.x_t.bytes != 0) x_t.emplace(layout.x_t, owns_padding, problem.device);
    if (layout.w_t.bytes != 0) w_t.emplace(layout.w_t, owns_padding, problem.device);
    if (!problem.training) return;
    if (problem.dbias_dtype) {
      dbias.emplace(*problem.dbias_dtype, 1, problem.n, gap, problem.device);
      if (problem.accumulate_dw) dbias->fill_from(inputs.old_dbias);
    }
    if (problem.need_dx) dx.emplace(problem.dtype, problem.m, problem.k, gap, problem.device);
    if (!problem.need_dw) return;
    dw.emplace(problem.dw_dtype, problem.n, problem.k, gap, problem.device);
    if (problem.accumulate_dw) dw->fill_from(inputs.old_dw);
  }
};

// The weights as the layer takes them.
struct Weights {
  QuantizedTensor w;
  QuantizedTensor w_t;

  Weights(const Fp8LinearProblem& problem, const Operands& operands) {
    if (!problem.weights_quantized) return;
    w = in_our_layout(operands.w.view());
    w_t = in_our_layout(operands.w_t);
  }
};

void run_layer(const Fp8LinearProblem& problem, const DataOptions& options, const Inputs& inputs,
               const Weights& weights, const Outputs& outputs) {
  const Fp8LinearOptions plan_options{options.backend, options.quantize_backend, options.threads};
  Fp8LinearSaved saved;
  saved.x_t = view_of(outputs.x_t);
  saved.w_t = outputs.w_t ? outputs.w_t->view() : weights.w_t.view();
  Fp8LinearForwardArgs forward;
  forward.x = inputs.x;
  forward.w = inputs.w;
  forward.weights = {weights.w, weights.w_t};
  forward.y = outputs.y.view();
  forward.saved = saved;
  forward.bias = as_vector(inputs.bias.view());
  run_once(plan_fp8_linear_forward(problem, plan_options), forward, problem.device);
  if (!outputs.dx && !outputs.dw && !outputs.dbias) return;
  Fp8LinearBackwardArgs backward;
  backward.dy = inputs.dy;
  backward.saved = saved;
  backward.dx = view_of(outputs.dx);
  backward.dw = view_of(outputs.dw);
  backward.dbias = as_vector(view_of(outputs.dbias));
  run_once(plan_fp8_linear_backward(problem, plan_options), backward, problem.device);
}

// The tensors of one product, and how its operands were quantised.
struct Product {
  const char* tensor;
  const GuardedMatrix& first;
  const GuardedMatrix& second;
  ProductClaim exact;
  ProductClaim quantized;
  OracleRules a;
  OracleRules b;
};

void judge_product(const Fp8LinearProblem& problem, Product product, const JudgeOptions& options,
                   GateReport& report) {
  product.exact.out = product.quantized.out = product.first.view();
  const QuantizedFormats formats{
      product.a.format,    product.b.format,  problem.amax_floor,
      problem.pow2_scales, product.a.fold_mx, product.a.fold_mx && problem.mx_scale != MxScale::up};
  report.results.push_back(judge_g1(product.tensor, product.exact, formats, options));
  add(report, judge_kernel(product.tensor, product.quantized, options));
  if (problem.fast_accumulation) explain_fast_accumulation(options, report);
  if (product.a.fold_mx) {
    report.results.push_back(
        judge_folding(product.tensor, product.exact, product.a, product.b, options));
  }
  judge_memory(product.tensor, product.first, product.second, report);
}

void judge_saved(const char* tensor, const GuardedQuantized& first, const GuardedQuantized& second,
                 const QuantizedView& wanted, GateReport& report) {
  report.results.push_back(judge_quantized(tensor, first.view(), wanted));
  judge_memory(tensor, first, second, report);
}

// The sums of dy's columns and what they were added to, in f64.
std::vector<double> reference_dbias(const Inputs& inputs) {
  const TensorView dy = inputs.dy.view();
  std::vector<double> sums(static_cast<std::size_t>(dy.cols()));
  if (inputs.old_dbias.data() != nullptr) sums = decoded(as_vector(inputs.old_dbias.view()));
  std::vector<double> values(sums.size());
  constexpr std::int64_t kRows = 1024;  // that are copied from a device at a time
  for (std::int64_t first = 0; first < dy.rows(); first += kRows) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(kRows, dy.rows() - first)));
    std::iota(rows.begin(), rows.end(), first);
    const DecodedRows decoded_rows(dy, rows);
    for (const std::int64_t row : rows) {
      decoded_rows.read(row, values);
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += values[c];
    }
  }
  return sums;
}

void judge_outputs(const Fp8LinearProblem& problem, const Inputs& inputs, const Operands& operands,
                   const Outputs& first, const Outputs& second, const JudgeOptions& options,
                   GateReport& report) {
  const LayerRules& rules = operands.rules;
  const TensorView bias = repeated(inputs.bias.view(), problem.m);
  judge_product(problem,
                {"y",
                 first.y,
                 second.y,
                 {{}, inputs.x.view(), inputs.w.view(), bias},
                 {{}, operands.x.view(), operands.w.view(), bias},
                 rules.x,
                 rules.w},
                options, report);
  if (first.dx) {
    judge_product(problem,
                  {"dx",
                   *first.dx,
                   *second.dx,
                   {{}, inputs.dy.view(), transposed(inputs.w.view())},
                   {{}, operands.dy.view(), operands.w_t},
                   rules.dy,
                   rules.w},
                  options, report);
  }
  if (first.dw) {
    const TensorView old = inputs.old_dw.view();
    judge_product(problem,
                  {"dw",
                   *first.dw,
                   *second.dw,
                   {{}, transposed(inputs.dy.view()), transposed(inputs.x.view()), old},
                   {{}, operands.dy_t.view(), operands.x_t.view(), old},
                   rules.dy,
                   rules.x_t},
                  options, report);
  }
  if (first.dbias) {
    const std::vector<double> sums = reference_dbias(inputs);
    add(report, judge_elements("dbias", {first.dbias->view(), row_of(sums)}, options));
    judge_memory("dbias", *first.dbias, *second.dbias, report);
  }
  if (first.x_t) judge_saved("x_t", *first.x_t, *second.x_t, operands.x_t.view(), report);
  if (first.w_t) {
    judge_saved("w_t", *first.w_t, *second.w_t, operands.w_t, report);
  }
}

GateReport judge_layer(const Fp8LinearProblem& problem, const DataOptions& options) {
  GateReport report;
  const Inputs inputs(problem, options);
  const Operands operands(problem, inputs, options, report);
  const Weights weights(problem, operands);
  const Outputs first(problem, inputs, 0, true);
  const Outputs second(problem, inputs, options.row_gap, false);
  run_layer(problem, options, inputs, weights, first);
  run_layer(problem, options, inputs, weights, second);
  judge_outputs(problem, inputs, operands, first, second, judge_options(options, problem.device),
                report);
  return report;
}

}  // namespace

GateReport check_fp8_linear(const Fp8LinearProblem& problem, const DataOptions& options) {
  // Plans refuse what cannot run before any data is made.
  (void)plan_fp8_linear_forward(problem,
                                {options.backend, options.quantize_backend, options.threads});
  return within_memory("fp8_linear", describe(problem),
                       [&] { return judge_layer(problem, options); });
}

}  // namespace octet
