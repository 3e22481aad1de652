// linear_cross_entropy, stage by stage and as a whole:
//
//   G2 to G4  logits, dx and dw against f64 products of the operands they are made from
//   E1, E2    lse, loss and dlogits against f64 on the logits
//   G1        dx and dw against f64 on the unquantised inputs
//             FP8 > 25 dB, > 20 dB if a format is e5m2, on skewed data > 10 dB, 2 dB less with
//             powers of two as scales; 16 bits > 45 dB, all f32 > 100 dB, 15 dB less on skewed data,
//             30 on outliers
//
// Logits and dlogits, which the operator never exposes, come from its parts. G1 has the casts of
// dlogits and of w or x (28.5 dB in e4m3), and the noise that the casts of x and w leave in the
// softmax. It is small beside the one-hot part of dlogits while the logits are near N(0, 1). Skewed
// data makes logits of 4 to 8 standard deviations, whose noise the softmax passes on: 16 to 21 dB
// in e4m3, 12 to 17 in e5m2 were seen, so G1 asks for 10 there and the other gates judge the stages.
// Outliers make logits of hundreds: the noise of FP8 casts decides which word the softmax chooses, so
// there is no G1. In bf16, 34 dB were seen on skewed data and 21 on outliers.
//
// The one-hot part has about one size in all rows. A scale that is a power of two leaves it where one
// cast may be off by 1/17 (e5m2: 1/9) in every row: 23.8 dB (18.2) with the cast of w or x.
#include "check/judge/trial.hpp"
#include "check/ops/gated_mlp.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/reference.hpp"
#include "core/checks.hpp"
#include "cpu/threads.hpp"
#include "ops/linear_cross_entropy/state.hpp"

#include <bit>
#include <cmath>
#include <cstdio>

namespace octet {
namespace {

Tensor on_device(const Tensor& host, Device device) {
  Tensor copy(host.view().dtype, {host.view().shape[0]}, device);
  octet::copy(host, copy);
  return copy;
}

// The tensors of a call. Every 13th token is ignored. The gradient of a mean is about the count of
// tokens, so that no gradient leaves the range of f16, as under loss scaling.
struct HeadInputs {
  Tensor x, w, old_dw;
  std::vector<std::int64_t> target;
  std::vector<float> grad;  // of each token's loss
  Tensor targets, loss_grad;

  HeadInputs(const LinearCrossEntropyProblem& problem, const DataOptions& options)
      : x(random_matrix(problem.dtype, problem.m, problem.k, 0, options, problem.device)),
        w(random_weights(problem.dtype, problem.v, problem.k, 1, options, problem.device)) {
    if (needs_gradient(problem) && problem.need_dw && problem.accumulate_dw) {
      old_dw = random_matrix(problem.dw_dtype, problem.v, problem.k, 2, options, problem.device);
    }
    const Tensor host_targets(problem.target_dtype, {problem.m});
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < problem.m; ++i) {
      target.push_back(i % 13 == 7 ? problem.ignore_index : (i * 7919 + 3) % problem.v);
      counted += target.back() != problem.ignore_index;
      if (problem.target_dtype == Dtype::i32) {
        static_cast<std::int32_t*>(host_targets.data())[i] = static_cast<std::int32_t>(target[i]);
      } else {
        static_cast<std::int64_t*>(host_targets.data())[i] = target[i];
      }
    }
    targets = on_device(host_targets, problem.device);
    const bool per_token = problem.reduction == LossReduction::none;
    const Tensor host_grad(Dtype::f32, {per_token ? problem.m : 1});
    auto* given = static_cast<float*>(host_grad.data());
    const bool mean = problem.reduction == LossReduction::mean;
    given[0] = mean ? static_cast<float>(std::bit_ceil(static_cast<std::uint64_t>(problem.m))) : 1;
    for (std::int64_t i = 0; i < problem.m; ++i) {
      if (per_token) given[i] = 1 + 0.25f * static_cast<float>(i % 5);
      grad.push_back(per_token ? given[i] : given[0] / static_cast<float>(mean ? counted : 1));
    }
    loss_grad = on_device(host_grad, problem.device);
  }
};

// The outputs of one call.
struct HeadOutputs {
  std::optional<GuardedMatrix> dx, dw;
  GuardedMatrix loss, lse;  // one row

  HeadOutputs(const LinearCrossEntropyProblem& problem, const HeadInputs& inputs, std::int64_t gap)
      : loss(Dtype::f32, 1, problem.reduction == LossReduction::none ? problem.m : 1, gap,
             problem.device),
        lse(Dtype::f32, 1, problem.m, gap, problem.device) {
    if (!needs_gradient(problem)) return;
    if (problem.need_dx) dx.emplace(problem.dtype, problem.m, problem.k, gap, problem.device);
    if (!problem.need_dw) return;
    dw.emplace(problem.dw_dtype, problem.v, problem.k, gap, problem.device);
    if (problem.accumulate_dw) dw->fill_from(inputs.old_dw);
  }
};

TensorView as_vector(const GuardedMatrix& row) {
  return make_view(row.view().data, Dtype::f32, {row.view().cols()}, row.view().device);
}

void run_head(const LinearCrossEntropyProblem& problem, const DataOptions& options,
              const HeadInputs& inputs, const Fp8LinearWeights& weights,
              const HeadOutputs& outputs) {
  const Fp8LinearOptions plan_options{options.backend, options.quantize_backend, options.threads};
  LinearCrossEntropyForwardArgs forward;
  forward.x = inputs.x;
  forward.w = inputs.w;
  forward.weights = weights;
  forward.targets = inputs.targets;
  if (problem.reduction != LossReduction::none) forward.loss_grad = inputs.loss_grad;
  forward.loss = as_vector(outputs.loss);
  forward.lse = as_vector(outputs.lse);
  forward.dx = view_of(outputs.dx);
  forward.dw = view_of(outputs.dw);
  run_once(plan_linear_cross_entropy_forward(problem, plan_options), forward, problem.device);
  if (problem.reduction != LossReduction::none || !needs_gradient(problem)) return;
  LinearCrossEntropyBackwardArgs backward;
  backward.x = inputs.x;
  backward.w = inputs.w;
  backward.weights = weights;
  backward.targets = inputs.targets;
  backward.loss_grad = inputs.loss_grad;
  backward.lse = forward.lse;
  backward.dx = forward.dx;
  backward.dw = forward.dw;
  run_once(plan_linear_cross_entropy_backward(problem, plan_options), backward, problem.device);
}

double log_sum_exp(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

class Judge {
 public:
  Judge(const LinearCrossEntropyProblem& problem, const DataOptions& options)
      : problem_(problem),
        options_(options),
        judge_(judge_options(options, problem.device)),
        threads_(options.threads != 0 ? options.threads : default_threads()),
        pitch_(round_up(problem.v, 64)),
        inputs_(problem, options) {}

  GateReport report() {
    make_operands();
    const HeadOutputs first(problem_, inputs_, 0);
    run_head(problem_, options_, inputs_, weights_, first);
    judge_logits(first);
    if (needs_gradient(problem_)) {
      judge_gradients(first);
      judge_whole(first);
    }
    judge_repeated(first);
    return std::move(report_);
  }

 private:
  QuantizedView operand(const char* name, const TensorView& tensor, Transpose transpose,
                        Dtype format, BlockShape block) {
    if (!problem_.fp8) return transpose == Transpose::yes ? transposed(tensor) : tensor;
    const OracleRules rules{format, block, problem_.amax_floor, problem_.pow2_scales};
    casts_.emplace_back(text("quantised ", name), tensor, transpose, rules, options_, report_);
    return casts_.back().view();
  }

  void make_operands() {
    casts_.reserve(5);  // views point into it
    x_ = operand("x", inputs_.x, Transpose::no, problem_.format, kBlock1x128);
    w_ = operand("w", inputs_.w, Transpose::no, problem_.format, kBlock128x128);
    if (problem_.weights_quantized) {
      our_w_ = in_our_layout(w_);
      our_w_t_ = in_our_layout(transposed(w_));
      weights_ = {our_w_, our_w_t_};
    }
  }

  // The logits of all tokens, from the single product. Plain ones in the chunks of the operator:
  // cuBLASLt may choose another algorithm for more rows.
  TensorView multiply() {
    tensors_.emplace_back(problem_.dtype, std::initializer_list<std::int64_t>{problem_.m, pitch_},
                          problem_.device);
    const TensorView all = make_matrix(tensors_.back().data(), problem_.dtype, problem_.m,
                                       problem_.v, pitch_, problem_.device);
    const auto plan = plan_linear_cross_entropy_forward(problem_);
    const auto* state = static_cast<const LinearCrossEntropyState*>(plan.state.get());
    const std::int64_t rows = problem_.fp8 ? problem_.m : state->chunk_rows;
    const QuantizedTensor x = problem_.fp8 ? in_our_layout(x_) : QuantizedTensor();
    const QuantizedTensor w = problem_.fp8 ? in_our_layout(w_) : QuantizedTensor();
    for (std::int64_t first = 0; first < problem_.m; first += rows) {
      const std::int64_t count = std::min(rows, problem_.m - first);
      const Fp8LinearProblem layer = head_layer(problem_, count, false);
      const LinearProducts products = problem_.fp8 ? fp8_products(layer) : plain_products(layer);
      const GemmArgs args{problem_.fp8 ? x.view() : QuantizedView(part(inputs_.x, first, count)),
                          problem_.fp8 ? w.view() : QuantizedView(inputs_.w.view()),
                          part(all, first, count)};
      run_once(plan_gemm(products.y, {options_.backend, options_.threads}), args, problem_.device);
    }
    return all;
  }

  static TensorView part(const TensorView& view, std::int64_t first, std::int64_t rows) {
    TensorView result = view;
    result.data = static_cast<char*>(view.data) + first * view.strides[0] * size_bytes(view.dtype);
    result.shape[0] = rows;
    return result;
  }

  // Logits, and from them in f64 lse and loss of every token.
  void judge_logits(const HeadOutputs& outputs) {
    logits_ = multiply();
    add(report_, judge_any_product("logits", {logits_, x_, w_}, judge_));
    std::vector<double> lse(problem_.m), loss(problem_.m);
    const RowsOnHost host(logits_, {});
    parallel_for(threads_, problem_.m, [&](std::int64_t row) {
      if (inputs_.target[row] == problem_.ignore_index) return;
      std::vector<double> values(problem_.v);
      for (std::int64_t c = 0; c < problem_.v; ++c) values[c] = decode(host.view(), row, c);
      lse[row] = log_sum_exp(values);
      loss[row] = lse[row] - values[inputs_.target[row]];
    });
    if (problem_.reduction != LossReduction::none) {
      double sum = 0, counted = 0;
      for (std::int64_t i = 0; i < problem_.m; ++i) {
        sum += loss[i];
        counted += inputs_.target[i] != problem_.ignore_index;
      }
      loss = {problem_.reduction == LossReduction::mean ? sum / counted : sum};
    }
    add(report_, judge_elements("lse", {outputs.lse.view(), row_of(lse)}, judge_));
    add(report_, judge_elements("loss", {outputs.loss.view(), row_of(loss)}, judge_));
  }

  // Reference of a row of dlogits, in the place of its logits.
  void to_gradient(std::int64_t row, std::span<double> values) const {
    if (inputs_.target[row] == problem_.ignore_index) {
      std::fill(values.begin(), values.end(), 0.0);
      return;
    }
    const double lse = log_sum_exp(values);
    for (double& value : values) value = std::exp(value - lse) * inputs_.grad[row];
    values[inputs_.target[row]] -= inputs_.grad[row];
  }

  // dlogits of all tokens, by the rows of the operator.
  TensorView run_rows() {
    const TensorView dlogits = multiply();
    const auto plan = plan_linear_cross_entropy_backward(problem_);
    const auto& rows = static_cast<const LinearCrossEntropyState*>(plan.state.get())->loss_rows;
    const Buffer totals(sizeof(LossTotals), problem_.device);
    LossOfRows step;
    step.logits = dlogits;
    step.targets = inputs_.targets;
    step.gradient = true;
    step.totals = static_cast<LossTotals*>(totals.data());
    if (problem_.reduction == LossReduction::none) {
      step.row_grad = inputs_.loss_grad;
    } else {
      const CountTargets count{inputs_.targets, inputs_.loss_grad,
                               static_cast<LossTotals*>(totals.data())};
      run_plan(rows, LossRowsStep(count), {}, nullptr);
    }
    run_plan(rows, LossRowsStep(step), {}, nullptr);
    if (problem_.device.type == DeviceType::cuda) cuda::synchronize(problem_.device.index);
    return dlogits;
  }

  void judge_gradients(const HeadOutputs& outputs) {
    const TensorView dlogits = run_rows();
    const DecodedRows logits(logits_, judged_rows(problem_.m, problem_.v, judge_));
    const ReferenceRow reference = [&](std::int64_t row, std::span<double> values) {
      logits.read(row, values);
      to_gradient(row, values);
    };
    add(report_, judge_elements("dlogits", {dlogits, reference}, judge_));
    if (outputs.dx) {
      const QuantizedView a =
          operand("dlogits", dlogits, Transpose::no, problem_.grad_format, kBlock1x128);
      add(report_, judge_any_product("dx", {outputs.dx->view(), a, transposed(w_)}, judge_));
    }
    if (!outputs.dw) return;
    const BlockShape block =
        problem_.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128;
    const QuantizedView a =
        operand("dlogits^T", dlogits, Transpose::yes, problem_.grad_format, kBlock1x128);
    const QuantizedView b = operand("x^T", inputs_.x, Transpose::yes, problem_.format, block);
    add(report_,
        judge_any_product("dw", {outputs.dw->view(), a, b, inputs_.old_dw.view()}, judge_));
  }

  double least_db(Dtype out) const {
    const bool skewed = options_.distribution == Distribution::skewed;
    const bool outliers = options_.distribution == Distribution::outliers;
    if (problem_.fp8) {
      const bool e4m3 = problem_.format == Dtype::e4m3 && problem_.grad_format == Dtype::e4m3;
      return (skewed ? 10 : e4m3 ? 25 : 20) - (problem_.pow2_scales ? 2 : 0);
    }
    return (problem_.dtype == Dtype::f32 && out == Dtype::f32 ? 100 : 45) - (skewed     ? 15
                                                                             : outliers ? 30
                                                                                        : 0);
  }

  void whole(const char* name, const std::optional<GuardedMatrix>& out, const TensorView& a,
             const TensorView& b, const TensorView& old = {}) {
    if (!out) return;
    SearchOptions search;
    search.elements = false;
    search.sample_beyond = judge_.sample_beyond;
    search.seed = judge_.seed;
    search.threads = judge_.threads;
    const Findings findings = search_product({out->view(), a, b, old}, search);
    const double bound_db = least_db(out->view().dtype);
    char value[64];
    std::snprintf(value, sizeof value, "%.1f dB%s", findings.snr_db(),
                  findings.sampled ? " in sampled strips" : "");
    report_.results.push_back({"G1", name, findings.snr_db() > bound_db, value,
                               text("> ", bound_db, " dB"), findings.snr_db()});
  }

  // dlogits from the unquantised inputs: products in f64, kept as f32, whose rounding is far below
  // the bounds.
  void judge_whole(const HeadOutputs& outputs) {
    const std::int64_t m = problem_.m, v = problem_.v, k = problem_.k;
    // One-signed data have logits of one size, whose rounding alone is beyond the bounds.
    if (std::min({m * k, m * v, v * k}) < kSnrOutputs || !judge_.zero_mean) return;
    if (problem_.fp8 && options_.distribution == Distribution::outliers) return;
    const Tensor host(Dtype::f32, {m, v});
    auto* data = static_cast<float*>(host.data());
    for_each_tile({inputs_.x.view(), inputs_.w.view(), {}, false, options_.threads},
                  [&](const ReferenceTile& tile) {
                    for (int row = 0; row < tile.rows; ++row) {
                      const double* from = tile.value + static_cast<std::ptrdiff_t>(row) * kTile;
                      float* to = data + (tile.first_row + row) * v + tile.first_col;
                      for (int col = 0; col < tile.cols; ++col) {
                        to[col] = static_cast<float>(from[col]);
                      }
                    }
                  });
    parallel_for(threads_, m, [&](std::int64_t row) {
      std::vector<double> values(data + row * v, data + (row + 1) * v);
      to_gradient(row, values);
      std::transform(values.begin(), values.end(), data + row * v,
                     [](double value) { return static_cast<float>(value); });
    });
    Tensor dlogits(Dtype::f32, {m, v}, problem_.device);
    octet::copy(host, dlogits);
    whole("dx", outputs.dx, dlogits, transposed(inputs_.w.view()));
    whole("dw", outputs.dw, transposed(dlogits.view()), transposed(inputs_.x.view()),
          inputs_.old_dw.view());
  }

  // G5 and G6.
  void judge_repeated(const HeadOutputs& first) {
    // cuBLASLt, which computes the plain products on CUDA, also chooses its kernel by the pitch.
    const bool dense = !problem_.fp8 && problem_.device.type == DeviceType::cuda;
    const HeadOutputs second(problem_, inputs_, dense ? 0 : options_.row_gap);
    run_head(problem_, options_, inputs_, weights_, second);
    judge_memory("loss", first.loss, second.loss, report_);
    judge_memory("lse", first.lse, second.lse, report_);
    if (first.dx) judge_memory("dx", *first.dx, *second.dx, report_);
    if (first.dw) judge_memory("dw", *first.dw, *second.dw, report_);
  }

  const LinearCrossEntropyProblem& problem_;
  const DataOptions& options_;
  const JudgeOptions judge_;
  const int threads_;
  const std::int64_t pitch_;
  GateReport report_;
  HeadInputs inputs_;
  std::vector<QuantizedOperand> casts_;
  QuantizedView x_, w_;  // operands: FP8 from the oracle, or the inputs
  QuantizedTensor our_w_, our_w_t_;
  Fp8LinearWeights weights_;
  std::vector<Tensor> tensors_;
  TensorView logits_;
};

}  // namespace

GateReport check_linear_cross_entropy(const LinearCrossEntropyProblem& problem,
                                      const DataOptions& options) {
  // Plans refuse what cannot run before any data is made.
  (void)plan_linear_cross_entropy_forward(
      problem, {options.backend, options.quantize_backend, options.threads});
  return within_memory("linear_cross_entropy", describe(problem),
                       [&] { return Judge(problem, options).report(); });
}

}  // namespace octet
