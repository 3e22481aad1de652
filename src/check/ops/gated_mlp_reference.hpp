// h and d_gate_up of a gated MLP from its unquantised inputs: products and activations in f64, kept
// as f32, whose rounding is 2^-20 of what the gates on the whole layer allow. On the device of the
// inputs, where the products that follow are compared.
#pragma once

#include "check/ops/gated_mlp_trial.hpp"

namespace octet {

struct GatedMlpReference {
  Tensor h;          // [M, F]
  Tensor d_gate_up;  // [M, 2F]; where there is a gradient

  GatedMlpReference(const GatedMlpProblem& problem, const GatedMlpInputs& inputs, int threads);
};

}  // namespace octet
