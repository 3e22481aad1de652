// The formulas in f64, one row at a time; and what the implementations on the CPU share.
#include "cpu/threads.hpp"
#include "ops/linear_cross_entropy/rows.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

// A row of logits, in the place of which its gradient is stored.
struct Logits {
  void* data;
  Dtype dtype;
  std::int64_t cols;

  double at(std::int64_t col) const { return load_f32(data, col, dtype); }
  void set(std::int64_t col, double value) const {
    store_f32(data, col, dtype, static_cast<float>(value));
  }
};

double log_sum_exp(const Logits& logits) {
  double largest = logits.at(0);
  for (std::int64_t c = 1; c < logits.cols; ++c) largest = std::max(largest, logits.at(c));
  double sum = 0;
  for (std::int64_t c = 0; c < logits.cols; ++c) sum += std::exp(logits.at(c) - largest);
  return largest + std::log(sum);
}

void run_row(const LossRowsProblem& problem, const LossOfRows& step, std::int64_t row) {
  const Logits logits{row_at(step.logits, row), problem.dtype, problem.cols};
  const std::int64_t target = target_at(step.targets, row);
  const bool counted = target != problem.ignore_index;
  double lse = 0;
  if (counted) {
    lse = step.given_lse.data != nullptr ? *float_at(step.given_lse, row) : log_sum_exp(logits);
    if (float* loss = float_at(step.loss, row)) {
      *loss = static_cast<float>(lse - logits.at(target));
    }
  } else if (float* loss = float_at(step.loss, row)) {
    *loss = 0;
  }
  if (float* out = float_at(step.lse, row)) *out = static_cast<float>(lse);
  if (!step.gradient) return;
  const double scale = counted ? scale_of_row(step, row) : 0;
  lse = static_cast<float>(lse);  // as backward is given it
  for (std::int64_t c = 0; c < problem.cols; ++c) {
    const double softmax = counted ? std::exp(logits.at(c) - lse) : 0;
    logits.set(c, (softmax - (c == target ? 1 : 0)) * scale);
  }
}

void run_reference(const LossRowsProblem& problem, const LossRowsStep& step,
                   const RunContext& context) {
  if (const auto* rows = std::get_if<LossOfRows>(&step)) {
    parallel_for(context.threads, rows->logits.rows(),
                 [&](std::int64_t row) { run_row(problem, *rows, row); });
  } else if (const auto* count = std::get_if<CountTargets>(&step)) {
    run_cpu_step(problem, *count, context.threads);
  } else if (const auto* sum = std::get_if<SumLosses>(&step)) {
    run_cpu_step(problem, *sum, context.threads);
  } else {
    run_cpu_step(problem, std::get<RoundGradient>(step), context.threads);
  }
}

}  // namespace

void run_cpu_step(const LossRowsProblem& problem, const CountTargets& step, int) {
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < step.targets.shape[0]; ++row) {
    if (target_at(step.targets, row) != problem.ignore_index) ++counted;
  }
  const float grad = step.loss_grad.data != nullptr ? *float_at(step.loss_grad, 0) : 1;
  const bool mean = problem.reduction == LossReduction::mean;
  *step.totals = {counted, mean ? grad / static_cast<float>(counted) : grad};
}

void run_cpu_step(const LossRowsProblem& problem, const SumLosses& step, int) {
  double sum = 0;
  for (std::int64_t row = 0; row < step.losses.shape[0]; ++row) {
    sum += *float_at(step.losses, row);
  }
  if (problem.reduction == LossReduction::mean) sum /= static_cast<double>(step.totals->counted);
  *float_at(step.loss, 0) = static_cast<float>(sum);
}

void run_cpu_step(const LossRowsProblem&, const RoundGradient& step, int threads) {
  parallel_for(threads, step.sum.rows(), [&](std::int64_t row) {
    const auto* sum = static_cast<const float*>(row_at(step.sum, row));
    void* dw = row_at(step.dw, row);
    for (std::int64_t c = 0; c < step.sum.cols(); ++c) store_f32(dw, c, step.dw.dtype, sum[c]);
  });
}

std::span<const LossRowsImplementation> loss_rows_implementations() {
  static const std::array<LossRowsImplementation, 3> list{kLossRowsCudaSm90, kLossRowsCpuSimd,
                                                          kLossRowsCpuReference};
  return list;
}

constinit const LossRowsImplementation kLossRowsCpuReference =
    cpu_reference<LossRowsProblem, LossRowsStep, run_reference>();

}  // namespace octet
