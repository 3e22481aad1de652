// Row by row: the kernels give the sum of exponentials and the softmax; the target is a single
// element, for which f64 costs nothing.
#include "ops/linear_cross_entropy/cpu_simd.hpp"

#include "cpu/threads.hpp"

#include <cstring>

namespace octet {
namespace {

void run_row(const LossRowsProblem& problem, const LossOfRows& step, std::int64_t row,
             const LossRowsKernels& kernels) {
  void* logits = row_at(step.logits, row);
  const std::int64_t target = target_at(step.targets, row);
  float* loss = float_at(step.loss, row);
  float* lse_out = float_at(step.lse, row);
  if (target == problem.ignore_index) {
    if (loss != nullptr) *loss = 0;
    if (lse_out != nullptr) *lse_out = 0;
    if (step.gradient) {
      std::memset(logits, 0, static_cast<std::size_t>(problem.cols * size_bytes(problem.dtype)));
    }
    return;
  }
  const double logit = load_f32(logits, target, problem.dtype);
  double lse = 0;
  if (step.given_lse.data != nullptr) {
    lse = *float_at(step.given_lse, row);
  } else {
    const ExpSum exp_sum = kernels.sum_row(logits, problem.cols);
    lse = exp_sum.largest + std::log(static_cast<double>(exp_sum.sum));
  }
  const auto rounded = static_cast<float>(lse);
  if (loss != nullptr) *loss = static_cast<float>(lse - logit);
  if (lse_out != nullptr) *lse_out = rounded;
  if (!step.gradient) return;
  const float scale = scale_of_row(step, row);
  kernels.softmax_row(logits, problem.cols, rounded, scale);
  store_f32(logits, target, problem.dtype,
            static_cast<float>((std::exp(logit - rounded) - 1) * scale));
}

}  // namespace

void loss_rows_cpu_simd(const LossRowsProblem& problem, const LossRowsStep& step,
                        const RunContext& context, InstructionSet instructions) {
  if (const auto* rows = std::get_if<LossOfRows>(&step)) {
    const LossRowsKernels& kernels = loss_rows_kernels(problem.dtype, instructions);
    parallel_for(context.threads, rows->logits.rows(),
                 [&](std::int64_t row) { run_row(problem, *rows, row, kernels); });
  } else if (const auto* count = std::get_if<CountTargets>(&step)) {
    run_cpu_step(problem, *count, context.threads);
  } else if (const auto* sum = std::get_if<SumLosses>(&step)) {
    run_cpu_step(problem, *sum, context.threads);
  } else {
    run_cpu_step(problem, std::get<RoundGradient>(step), context.threads);
  }
}

constinit const LossRowsImplementation kLossRowsCpuSimd =
    cpu_simd<LossRowsProblem, LossRowsStep, loss_rows_cpu_simd>();

}  // namespace octet
