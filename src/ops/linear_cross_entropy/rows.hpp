// The steps of linear_cross_entropy that are not products: on rows of logits, on the losses of all
// tokens, and on the sum of weight gradients. One list of implementations for all of them.
#pragma once

#include "core/numeric.hpp"
#include "dispatch/implementation.hpp"

#include <octet/ops/linear_cross_entropy.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <variant>

namespace octet {

// What the steps share.
struct LossRowsProblem {
  std::int64_t cols = 0;  // words of the vocabulary
  Dtype dtype = Dtype::bf16;
  Dtype target_dtype = Dtype::i64;
  std::int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
  Device device{};
};

// Of all tokens, in memory of the device.
struct LossTotals {
  std::int64_t counted;  // tokens that are not ignored
  float scale;           // of dlogits: loss_grad, for mean divided by the count
};

// Writes the totals. loss_grad: [1], or no data: 1.
struct CountTargets {
  TensorView targets;
  TensorView loss_grad;
  LossTotals* totals;
};

// Loss and lse of rows of logits, and the gradients in the place of the logits. Each row owns its
// padding, starts on a 16-byte boundary and has a multiple of 16 bytes.
struct LossOfRows {
  TensorView logits;     // [rows, cols]
  TensorView targets;    // [rows]
  TensorView loss;       // [rows]; no data: not written
  TensorView lse;        // [rows]; no data: not written
  TensorView given_lse;  // [rows]; no data: computed
  bool gradient = false;
  TensorView row_grad;  // [rows]; no data: totals->scale for all
  const LossTotals* totals = nullptr;
};

// loss[0] = the sum of the losses, for mean divided by the count.
struct SumLosses {
  TensorView losses;  // [M]
  const LossTotals* totals;
  TensorView loss;  // [1]
};

// dw = the f32 sum, rounded.
struct RoundGradient {
  TensorView sum;  // [V, K] f32, dense
  TensorView dw;   // [V, K]
};

using LossRowsStep = std::variant<CountTargets, LossOfRows, SumLosses, RoundGradient>;
using LossRowsPlan = Plan<LossRowsProblem>;
using LossRowsImplementation = Implementation<LossRowsProblem, LossRowsStep>;

extern const LossRowsImplementation kLossRowsCudaSm90;
extern const LossRowsImplementation kLossRowsCpuSimd;
extern const LossRowsImplementation kLossRowsCpuReference;

// In the order they are tried.
std::span<const LossRowsImplementation> loss_rows_implementations();

inline std::int64_t target_at(const TensorView& targets, std::int64_t row) {
  if (targets.dtype == Dtype::i32) {
    return static_cast<const std::int32_t*>(targets.data)[row];
  }
  return static_cast<const std::int64_t*>(targets.data)[row];
}

// The steps on the CPU; only LossOfRows has a SIMD implementation.
void run_cpu_step(const LossRowsProblem& problem, const CountTargets& step, int threads);
void run_cpu_step(const LossRowsProblem& problem, const SumLosses& step, int threads);
void run_cpu_step(const LossRowsProblem& problem, const RoundGradient& step, int threads);

inline float* float_at(const TensorView& vector, std::int64_t row) {
  return vector.data == nullptr ? nullptr : static_cast<float*>(vector.data) + row;
}
inline void* row_at(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

// The scale of a row's gradient.
inline float scale_of_row(const LossOfRows& step, std::int64_t row) {
  return step.row_grad.data != nullptr ? *float_at(step.row_grad, row) : step.totals->scale;
}

// The launcher of the Hopper kernels. Throws Error if CUDA reports one.
void launch_sm90_loss_rows(const LossRowsProblem& problem, const LossRowsStep& step,
                           const RunContext& context);

}  // namespace octet
