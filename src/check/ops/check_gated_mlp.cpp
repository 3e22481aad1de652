// A gated MLP, stage by stage (gated_mlp_stages.cpp), and as a whole:
//
//   G1   y, dx and dw against f64 on the unquantised inputs
//        FP8 > 20 dB, > 15 dB if a format is e5m2, 10 dB less on skewed data and on outliers;
//        16 bits > 45 dB; all f32 > 100 dB
//   F    FP8 fused and unfused: every output and saved view in equal bits
//
// Where G1's bounds come from, in units of n, the noise of one cast over its signal (e4m3: 31.5 dB;
// e5m2: 4 n). gate_up has 2 n from its two casts. h = act(gate) * up has the noise of both factors,
// about twice 2 n, plus n from its own cast; y adds one more n from w_down: 6 n, 23.7 dB. dh has
// 2 n. dgate = dh * up * act'(gate) has the noise of all three factors, 2 n + 2 n + at most 2 n
// (relu_squared; silu 0.8 n), and dx and dw add two casts: 8 n, 22.5 dB. With e5m2 for all of them
// it is 6 dB less, 16.5 dB. A rounding to bf16 has 55.6 dB. In 16 bits y has at most seven
// roundings instead of the casts (relu_squared squares the gate, whose rounding then counts as
// four), 47.1 dB; the gradients have five. As for products, SNRs need kSnrOutputs elements in every
// tensor: with fewer, only the stages are judged.
//
// All this is for casts whose errors average out. On skewed data and on outliers a few numbers have
// most of the energy of h and of the gradients, each the product of several such, whose casts are off
// by up to 2^-4 each (e5m2 and saturated mx values 2^-3). Seen over all granularities, activations and
// shapes from 70x130x257 to 512x512x1024: 11 dB and more in e4m3, 8 dB with e5m2; with fewer elements
// than least_elements() anything. In 16 bits, 43 dB were seen where few outputs have the energy: they
// have no G1.
#include "check/judge/compare_outputs.hpp"
#include "check/ops/gated_mlp.hpp"
#include "check/reference/decode.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace octet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double least_db(const GatedMlpProblem& problem, Distribution distribution, Dtype out) {
  if (problem.fp8) return gated_mlp_g1_db(problem.format, problem.grad_format, distribution);
  return problem.dtype == Dtype::f32 && out == Dtype::f32 ? 100 : 45;
}

// Of every tensor.
std::int64_t least_elements(const GatedMlpProblem& problem, Distribution distribution) {
  if (!problem.fp8) return kSnrOutputs;
  return distribution == Distribution::skewed     ? 8 * kSnrOutputs
         : distribution == Distribution::outliers ? 64 * kSnrOutputs
                                                  : kSnrOutputs;
}

std::int64_t count_different(const TensorView& x, const TensorView& y) {
  return compare_whole_outputs(x, y).different;
}
std::int64_t count_different(const QuantizedView& x, const QuantizedView& y) {
  return count_differences(x, y);
}

class Judge {
 public:
  Judge(const GatedMlpProblem& problem, const DataOptions& options)
      : problem_(problem),
        options_(options),
        judge_(judge_options(options, problem.device)),
        inputs_(problem, options),
        operands_(problem, inputs_, options, report_),
        first_(problem, inputs_, 0, true) {}

  GateReport report() {
    run_layer(problem_, options_, inputs_, operands_, first_);
    const GatedMlpStages stages(problem_, options_, inputs_, operands_, first_, report_);
    judge_products(stages);
    judge_saved(stages);
    judge_whole();
    judge_repeated();
    if (problem_.fp8) judge_fused();
    return std::move(report_);
  }

 private:
  void product(const char* name, const std::optional<GuardedMatrix>& out, const QuantizedView& a,
               const QuantizedView& b, const Tensor& old = {}) {
    if (!out) return;
    add(report_, judge_any_product(name, {out->view(), a, b, old.view()}, judge_));
  }

  void judge_products(const GatedMlpStages& stages) {
    product("y", first_.y, stages.h, operands_.w_down);
    product("dx", first_.dx, stages.d_gate_up, first_.dx ? operands_.w_gate_up_t : QuantizedView());
    product("dw_gate_up", first_.dw_gate_up, stages.d_gate_up_t, operands_.x_t,
            inputs_.old_dw_gate_up);
    product("dw_down", first_.dw_down, operands_.dy_t, stages.h_t, inputs_.old_dw_down);
  }

  void saved(const char* name, const std::optional<GuardedQuantized>& given,
             const QuantizedView& wanted) {
    if (given) report_.results.push_back(judge_quantized(name, given->view(), wanted));
  }

  void judge_saved(const GatedMlpStages& stages) {
    saved("h_fp8", first_.h_fp8, stages.h);
    saved("h_fp8_t", first_.h_fp8_t, stages.h_t);
    saved("x_t", first_.x_t, operands_.x_t);
    saved("w_gate_up_t", first_.w_gate_up_t, operands_.w_gate_up_t);
    saved("h_t", first_.h_t, stages.h_t);
    if (first_.w_down_t) saved("w_down_t", first_.w_down_t, operands_.w_down_t);
  }

  // The roundings to 16 bits have to average out, as those of G2.
  bool has_carriers(const Findings& findings) const {
    return problem_.fp8 || problem_.dtype == Dtype::f32 ||
           casts_average_out(options_.distribution) ||
           findings.effective_outputs() >= kSnrEffective;
  }

  void whole(const char* name, const std::optional<GuardedMatrix>& out, const TensorView& a,
             const TensorView& b, const Tensor& old = {}) {
    if (!out) return;
    SearchOptions search;
    search.elements = false;
    search.sample_beyond = judge_.sample_beyond;
    search.seed = judge_.seed;
    search.threads = judge_.threads;
    const Findings findings = search_product({out->view(), a, b, old.view()}, search);
    if (!has_carriers(findings)) return;
    const double bound_db = least_db(problem_, options_.distribution, out->view().dtype);
    char value[64];
    std::snprintf(value, sizeof value, "%.1f dB%s", findings.snr_db(),
                  findings.sampled ? " in sampled strips" : "");
    report_.results.push_back({"G1", name, findings.snr_db() > bound_db, value,
                               text("> ", bound_db, " dB"), findings.snr_db()});
  }

  // Products of outliers are beyond f16: what follows them is not finite, as G2 to G4 require.
  bool overflows(const Tensor& stage) const {
    return stage.data() != nullptr &&
           largest_finite(stage) >= float_format(problem_.dtype).overflow;
  }

  void judge_whole() {
    const std::int64_t fewest =
        std::min({problem_.m * problem_.k, problem_.m * problem_.f, problem_.f * problem_.k});
    if (fewest < least_elements(problem_, options_.distribution)) return;
    const GatedMlpReference reference(problem_, inputs_, options_.threads);
    if (overflows(reference.h) || overflows(reference.d_gate_up)) return;
    const TensorView h = reference.h;
    whole("y", first_.y, h, inputs_.w_down);
    if (!first_.dx && !first_.dw_gate_up) return;
    const TensorView d_gate_up = reference.d_gate_up;
    whole("dx", first_.dx, d_gate_up, transposed(inputs_.w_gate_up.view()));
    whole("dw_gate_up", first_.dw_gate_up, transposed(d_gate_up), transposed(inputs_.x.view()),
          inputs_.old_dw_gate_up);
    if (!first_.dw_down) return;
    whole("dw_down", first_.dw_down, transposed(inputs_.dout.view()), transposed(h),
          inputs_.old_dw_down);
  }

  // G5 and G6.
  void judge_repeated() {
    // cuBLASLt, which computes the plain products on CUDA, also chooses its kernel by the pitch.
    const bool dense = !problem_.fp8 && problem_.device.type == DeviceType::cuda;
    const GatedMlpOutputs second(problem_, inputs_, dense ? 0 : options_.row_gap, false);
    run_layer(problem_, options_, inputs_, operands_, second);
    visit_both(first_, second, [&](const char* name, const auto& first, const auto& again) {
      judge_memory(name, first, again, report_);
    });
  }

  void judge_fused() {
    GatedMlpProblem problem = problem_;
    problem.unfused = !problem.unfused;
    const GatedMlpOutputs other(problem, inputs_, 0, true);
    run_layer(problem, options_, inputs_, operands_, other);
    visit_both(first_, other, [&](const char* name, const auto& fused, const auto& unfused) {
      const std::int64_t different = count_different(fused.view(), unfused.view());
      report_.results.push_back(
          {"F", name, different == 0, text(different, " differ"), "equal bits", kNaN});
    });
  }

  const GatedMlpProblem& problem_;
  const DataOptions& options_;
  const JudgeOptions judge_;
  GateReport report_;
  GatedMlpInputs inputs_;
  GatedMlpOperands operands_;
  GatedMlpOutputs first_;
};

}  // namespace

double gated_mlp_g1_db(Dtype format, Dtype grad_format, Distribution distribution) {
  const bool e4m3 = format == Dtype::e4m3 && grad_format == Dtype::e4m3;
  return (e4m3 ? 20 : 15) - (casts_average_out(distribution) ? 0 : 10);
}

GateReport check_gated_mlp(const GatedMlpProblem& problem, const DataOptions& options) {
  // Plans refuse what cannot run before any data is made.
  (void)plan_gated_mlp_forward(problem,
                               {options.backend, options.quantize_backend, options.threads});
  return within_memory("gated_mlp", describe(problem),
                       [&] { return Judge(problem, options).report(); });
}

}  // namespace octet
