// What lies between the products of a gated MLP, and is judged on the way: gate_up and h as the layer
// leaves them, or by the single operators where it does not show them; dh and d_gate_up, which it
// never shows, by the single operators. Each is judged against f64 on the operands it was made of,
// so that the products behind it can be judged by theirs.
#pragma once

#include "check/ops/gated_activation_reference.hpp"
#include "check/ops/gated_mlp_trial.hpp"

namespace octet {

class GatedMlpStages {
 public:
  GatedMlpStages(const GatedMlpProblem& problem, const DataOptions& options,
                 const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
                 const GatedMlpOutputs& outputs, GateReport& report);

  // The operands of the products that follow: FP8 by the oracle, or the tensors themselves.
  QuantizedView h;            // [M, F]
  QuantizedView h_t;          // [F, M]
  QuantizedView d_gate_up;    // [M, 2F]
  QuantizedView d_gate_up_t;  // [2F, M]

 private:
  void forward(const GatedMlpOperands& operands, const GatedMlpOutputs& outputs);
  void backward(const GatedMlpInputs& inputs, const GatedMlpOperands& operands);
  TensorView multiply(const QuantizedView& a, const QuantizedView& b);
  TensorView activate_plain();
  TensorView activate_backward_plain();
  QuantizedView operand(const char* name, const TensorView& tensor, Turned turned, Dtype format,
                        BlockShape block);
  using ReferenceOf = void (GatedActivationReference::*)(std::int64_t, std::span<double>) const;
  void judge_elements_of(const char* name, const TensorView& out, ReferenceOf row);

  const GatedMlpProblem& problem_;
  const DataOptions& options_;
  const JudgeOptions judge_;
  GateReport& report_;
  TensorView gate_up_;  // [M, 2F]
  TensorView dh_;       // [M, F]
  std::vector<Tensor> tensors_;
  std::vector<QuantizedOperand> casts_;
};

// G2 and G3 of FP8 operands, G4 and G3 of others.
std::vector<GateResult> judge_any_product(const std::string& tensor, const ProductClaim& claim,
                                          const JudgeOptions& options);

}  // namespace octet
