// The data of check_gated_mlp: what the layer reads, what one call of it writes.
#pragma once

#include "check/data/quantized_operand.hpp"
#include "check/judge/trial.hpp"

#include <optional>
#include <vector>

namespace octet {

// Weights are scaled by a power of two near 1 / sqrt(their inputs), so that gates lie where their
// activation is curved, and nothing grows with the layer.
struct GatedMlpInputs {
  Tensor x;               // [M, K]
  Tensor w_gate_up;       // [2F, K]
  Tensor w_down;          // [K, F]
  Tensor dout;            // dy [M, K] with down, dh [M, F] without
  Tensor old_dw_gate_up;  // where dw is added to
  Tensor old_dw_down;

  GatedMlpInputs(const GatedMlpProblem& problem, const DataOptions& options);
};

// The casts of the inputs by the oracle, or judged by it; the inputs themselves where there are none.
struct GatedMlpOperands {
  QuantizedView x;          // [M, K]
  QuantizedView w_gate_up;  // [2F, K]
  QuantizedView w_down;     // [K, F]
  QuantizedView dy;         // [M, K]
  QuantizedView dy_t;       // [K, M]
  QuantizedView x_t;        // [K, M]
  GatedMlpWeights weights;  // in our own layout; where they come quantised

  GatedMlpOperands(const GatedMlpProblem& problem, const GatedMlpInputs& inputs,
                   const DataOptions& options, GateReport& report);

 private:
  std::vector<QuantizedOperand> casts_;
  std::vector<QuantizedTensor> copies_;
};

// Casts as the layer makes them: `tensor` [rows, cols], or its transpose.
QuantizedOperand cast(const GatedMlpProblem& problem, const char* name, const TensorView& tensor,
                      Turned turned, Dtype format, BlockShape block, const DataOptions& options,
                      GateReport& report);
BlockShape wgrad_block(const GatedMlpProblem& problem);

// What one call of forward and backward writes, guarded. By name; those it does not write are left
// out.
struct GatedMlpOutputs {
  std::optional<GuardedMatrix> y, h, dx, dw_gate_up, dw_down;
  std::optional<GuardedMatrix> gate_up, saved_h;
  std::optional<GuardedQuantized> h_fp8, h_fp8_t, x_t, w_gate_up_t, h_t, w_down_t;

  GatedMlpOutputs(const GatedMlpProblem& problem, const GatedMlpInputs& inputs, std::int64_t gap,
                  bool owns_padding);

  struct NamedMatrix {
    const char* name;
    const GuardedMatrix* matrix;
  };
  struct NamedQuantized {
    const char* name;
    const GuardedQuantized* tensor;
  };
  std::vector<NamedMatrix> matrices() const;
  std::vector<NamedQuantized> quantized() const;
};

void run_layer(const GatedMlpProblem& problem, const DataOptions& options,
               const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
               const GatedMlpOutputs& outputs);

}  // namespace octet
