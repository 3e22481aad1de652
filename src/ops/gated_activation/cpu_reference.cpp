// The formulas, one element at a time. An activation and its derivative are computed in f64,
// which avoids overflow, and rounded to f32 once.
#include "core/numeric.hpp"
#include "core/tree_sum.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/gated_activation/problem.hpp"

#include <cmath>
#include <numbers>

namespace octet {
namespace {

struct Activated {
  float value;
  float slope;
};

// The logistic function s(g) and its slope s (1 - s).
Activated silu(double g) {
  const double s = 1 / (1 + std::exp(-g));
  return {static_cast<float>(g * s), static_cast<float>(s * (1 + g * (1 - s)))};
}

Activated gelu_tanh(double g) {
  const double k = std::sqrt(2 * std::numbers::inv_pi);
  const double c = 0.044715;
  const double t = std::tanh(k * (g + c * g * g * g));
  const double slope = k * (1 + 3 * c * g * g);
  return {static_cast<float>(g / 2 * (1 + t)),
          static_cast<float>((1 + t) / 2 + g / 2 * (1 - t * t) * slope)};
}

Activated gelu_erf(double g) {
  const double share = std::erfc(-g / std::numbers::sqrt2) / 2;  // (1 + erf) / 2, small ones too
  const double density = std::exp(-g * g / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return {static_cast<float>(g * share), static_cast<float>(share + g * density)};
}

Activated relu_squared(double g) {
  const double positive = g < 0 ? 0 : g;  // NaN stays
  return {static_cast<float>(positive * positive), static_cast<float>(2 * positive)};
}

Activated activate(GateActivation activation, float g) {
  switch (activation) {
    case GateActivation::gelu_tanh: return gelu_tanh(g);
    case GateActivation::gelu_erf: return gelu_erf(g);
    case GateActivation::relu_squared: return relu_squared(g);
    case GateActivation::silu: break;
  }
  return silu(g);
}

float element(const TensorView& matrix, std::int64_t row, std::int64_t col) {
  return load_f32(matrix.data, row * matrix.strides[0] + col, matrix.dtype);
}

void store(const TensorView& matrix, std::int64_t row, std::int64_t col, float value) {
  store_f32(matrix.data, row * matrix.strides[0] + col, matrix.dtype, value);
}

float weight(const GatedActivationProblem& problem, const TensorView& row_weight,
             std::int64_t row) {
  return problem.row_weight ? static_cast<const float*>(row_weight.data)[row] : 1.0f;
}

void run_forward(const GatedActivationProblem& problem, const GatedActivationForwardArgs& args,
                 const RunContext& context) {
  const std::int64_t rows = computed_rows(problem, args.table);
  parallel_for(context.threads, rows, [&](std::int64_t r) {
    const float p = weight(problem, args.row_weight, r);
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const Activated act = activate(problem.activation, element(args.gate, r, c));
      store(args.y, r, c, (act.value * element(args.up, r, c)) * p);
    }
  });
  if (problem.tail == GroupTail::zero) clear_rows(args.y, rows, context.threads);
}

void run_backward(const GatedActivationProblem& problem, const GatedActivationBackwardArgs& args,
                  const RunContext& context) {
  const std::int64_t rows = computed_rows(problem, args.table);
  parallel_for(context.threads, rows, [&](std::int64_t r) {
    const float p = weight(problem, args.row_weight, r);
    TreeSum d_weight;
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const float dy = element(args.dy, r, c);
      const float up = element(args.up, r, c);
      const Activated act = activate(problem.activation, element(args.gate, r, c));
      store(args.dgate, r, c, (dy * p) * up * act.slope);
      store(args.dup, r, c, (dy * p) * act.value);
      d_weight.add(dy * (act.value * up));
    }
    if (problem.row_weight) {
      static_cast<float*>(args.d_row_weight.data)[r] = d_weight.sum();
    }
  });
  if (problem.tail == GroupTail::untouched) return;
  clear_rows(args.dgate, rows, context.threads);
  clear_rows(args.dup, rows, context.threads);
  if (problem.row_weight) clear_rows(as_column(args.d_row_weight), rows, 1);
}

std::string refuse(const GatedActivationProblem& problem, const Machine&) {
  const std::string refusal = refuse_off_cpu(problem.device);
  return refusal.empty() && problem.fp8 ? "does not write FP8 output: unfused does" : refusal;
}

}  // namespace

const GatedActivationForwardImplementation kGatedActivationForwardCpuReference{
    "cpu_reference", refuse, [](const GatedActivationProblem& problem, const Machine&) {
      return planned<GatedActivationForwardArgs>(problem, "scalar", 0, run_forward);
    }};
const GatedActivationBackwardImplementation kGatedActivationBackwardCpuReference{
    "cpu_reference", refuse, [](const GatedActivationProblem& problem, const Machine&) {
      return planned<GatedActivationBackwardArgs>(problem, "scalar", 0, run_backward);
    }};

}  // namespace octet
