// The gradient of a bias: dbias[n] = sum over m of dy[m, n], or dbias[n] += that, from dy as it is
// given, before it is quantised.
//
// f32 additions in an order that depends on M alone: rows of a run one after the other, then every
// 32nd run, then these 32 sums. Every device and thread count gives the same bits.
#pragma once

#include "core/checks.hpp"
#include "cpu/instruction_set.hpp"

#include <octet/ops/fp8_linear.hpp>

#include <optional>

namespace octet {

inline constexpr std::int64_t kBiasGradientRunRows = 64;
inline constexpr std::int64_t kBiasGradientLines = 32;  // runs that are added side by side

constexpr std::int64_t bias_gradient_runs(std::int64_t rows) {
  return ceil_div(rows, kBiasGradientRunRows);
}

struct BiasGradientArgs {
  TensorView dy;     // [M, N]
  TensorView dbias;  // [N]
  float* partials;   // [runs, N]
  bool accumulate;
};

// On the CPU; no instruction set: scalar.
void add_bias_gradient(const BiasGradientArgs& args, std::optional<InstructionSet> instructions,
                       int threads);
// On the device of dy.
void launch_bias_gradient(const BiasGradientArgs& args, void* stream);

// The columns of some rows, added to their sums.
struct RowsToAdd {
  const TensorView* dy;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t col;
  std::int64_t cols;
  float* sums;  // [cols]
};
void add_rows_avx2(const RowsToAdd& rows);
void add_rows_avx512(const RowsToAdd& rows);

// How a layer computes its dbias: chosen once, for every run of a plan.
class BiasGradient {
 public:
  // Throws Error(unsupported) where the device has no kernel.
  BiasGradient(const Fp8LinearProblem& layer, int threads);

  const char* implementation() const;
  std::size_t workspace_bytes() const;
  void run(const TensorView& dy, const TensorView& dbias, const Workspace& workspace,
           void* stream) const;

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  bool accumulate_;
  bool on_cuda_;
  std::optional<InstructionSet> instructions_{};
  int threads_;
};

}  // namespace octet
