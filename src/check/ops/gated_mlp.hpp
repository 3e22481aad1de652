// What check_gated_mlp is made of: the data of a call (gated_mlp_trial.cpp), the tensors between the
// products (gated_mlp_stages.cpp), and the whole layer in f64 (gated_mlp_reference.cpp).
#pragma once

#include "check/judge/trial.hpp"
#include "check/ops/gated_activation_reference.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace octet {

// Weights are scaled by a power of two near 1 / sqrt(their inputs), so that gates lie where the
// activation is curved and no tensor grows with the size of the layer.
struct GatedMlpInputs {
  Tensor x;               // [M, K]
  Tensor w_gate_up;       // [2F, K]
  Tensor w_down;          // [K, F]
  Tensor dout;            // dy [M, K] with down, dh [M, F] without
  Tensor old_dw_gate_up;  // if dw is accumulated
  Tensor old_dw_down;

  GatedMlpInputs(const GatedMlpProblem& problem, const DataOptions& options);
};

// Casts of the inputs, made by the oracle or judged by it; without FP8, the inputs themselves.
struct GatedMlpOperands {
  QuantizedView x;            // [M, K]
  QuantizedView w_gate_up;    // [2F, K]
  QuantizedView w_down;       // [K, F]
  QuantizedView w_gate_up_t;  // [K, 2F]: of the bytes of w_gate_up, unless each row has a scale
  QuantizedView w_down_t;     // [F, K]
  QuantizedView dy;           // [M, K]
  QuantizedView dy_t;         // [K, M]
  QuantizedView x_t;          // [K, M]
  GatedMlpWeights weights;    // in our own layout, if they are passed quantised

  GatedMlpOperands(const GatedMlpProblem& problem, const GatedMlpInputs& inputs,
                   const DataOptions& options, GateReport& report);

 private:
  std::vector<QuantizedOperand> casts_;
  std::vector<QuantizedTensor> copies_;
};

// Casts `tensor` [rows, cols], or its transpose, as the layer does.
QuantizedOperand cast(const GatedMlpProblem& problem, const char* name, const TensorView& tensor,
                      Transpose transpose, Dtype format, BlockShape block,
                      const DataOptions& options, GateReport& report);
// The blocks of activations and gradients, and of x^T and h^T.
BlockShape strip_block(const GatedMlpProblem& problem);
BlockShape wgrad_block(const GatedMlpProblem& problem);

// The guarded outputs of one call of forward and backward; those that are not written are left out.
struct GatedMlpOutputs {
  std::optional<GuardedMatrix> y, h, dx, dw_gate_up, dw_down;
  std::optional<GuardedMatrix> gate_up, saved_h;
  std::optional<GuardedQuantized> h_fp8, h_fp8_t, x_t, w_gate_up_t, h_t, w_down_t;

  GatedMlpOutputs(const GatedMlpProblem& problem, const GatedMlpInputs& inputs, std::int64_t gap,
                  bool owns_padding);
};

// Calls visit(name, output of `first`, output of `second`) for every output that was written.
template <class Visit>
void visit_both(const GatedMlpOutputs& first, const GatedMlpOutputs& second, const Visit& visit) {
  using Outputs = GatedMlpOutputs;
  const std::pair<const char*, std::optional<GuardedMatrix> Outputs::*> matrices[] = {
      {"gate_up", &Outputs::gate_up}, {"h", &Outputs::h},
      {"saved h", &Outputs::saved_h}, {"y", &Outputs::y},
      {"dx", &Outputs::dx},           {"dw_gate_up", &Outputs::dw_gate_up},
      {"dw_down", &Outputs::dw_down}};
  const std::pair<const char*, std::optional<GuardedQuantized> Outputs::*> quantized[] = {
      {"h_fp8", &Outputs::h_fp8}, {"h_fp8_t", &Outputs::h_fp8_t},
      {"x_t", &Outputs::x_t},     {"w_gate_up_t", &Outputs::w_gate_up_t},
      {"h_t", &Outputs::h_t},     {"w_down_t", &Outputs::w_down_t}};
  const auto visit_all = [&](const auto& outputs) {
    for (const auto& [name, output] : outputs) {
      if (second.*output) visit(name, *(first.*output), *(second.*output));
    }
  };
  visit_all(matrices);
  visit_all(quantized);
}

void run_layer(const GatedMlpProblem& problem, const DataOptions& options,
               const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
               const GatedMlpOutputs& outputs);

// The tensors between the products of a gated MLP, judged on the way. gate_up and h are those the
// layer saves, or come from the single operators if it does not expose them; dh and d_gate_up,
// which it never exposes, come from the single operators. Each is judged against f64 on the
// operands it was made from, so that the products that follow can be judged by theirs.
class GatedMlpStages {
 public:
  GatedMlpStages(const GatedMlpProblem& problem, const DataOptions& options,
                 const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
                 const GatedMlpOutputs& outputs, GateReport& report);

  // The operands of the products that follow: FP8 from the oracle, or the tensors themselves.
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
  QuantizedView operand(const char* name, const TensorView& tensor, Transpose transpose,
                        Dtype format, BlockShape block);
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

// Whether the errors of casts average out over a layer; where few numbers have the energy they do not.
inline bool casts_average_out(Distribution distribution) {
  return distribution == Distribution::normal || distribution == Distribution::one_signed;
}
// The least G1 of a gated MLP in FP8, in dB; check_gated_mlp.cpp says why.
double gated_mlp_g1_db(Dtype format, Dtype grad_format, Distribution distribution);

// G2 and G3 for FP8 operands, G4 and G3 for others.
std::vector<GateResult> judge_any_product(const std::string& tensor, const ProductClaim& claim,
                                          const JudgeOptions& options);

// h and d_gate_up of a gated MLP from its unquantised inputs: products and activations in f64, kept
// as f32, whose rounding is 2^-20 of what the gates on the whole layer allow. They are on the
// device of the inputs, where the products that follow are compared.
struct GatedMlpReference {
  Tensor h;          // [M, F]
  Tensor d_gate_up;  // [M, 2F], if there is a gradient

  GatedMlpReference(const GatedMlpProblem& problem, const GatedMlpInputs& inputs, int threads);
};

}  // namespace octet
