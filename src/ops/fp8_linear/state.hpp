// What the plans of the layer hold: a fixed sequence of quantize and gemm plans, and where their
// operands lie in the workspace.
#pragma once

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <algorithm>

namespace octet {

struct ForwardState {
  QuantizePlan quantize_x;
  std::optional<QuantizePlan> quantize_w;
  GemmPlan product;
  QuantizedLayout x_layout;
  QuantizedLayout w_layout;
};

struct BackwardState {
  QuantizePlan quantize_dy;
  std::optional<GemmPlan> dx_product;
  std::optional<GemmPlan> dw_product;
  QuantizedLayout dy_layout;
  QuantizedLayout dy_t_layout;
};

void check(const Fp8LinearProblem& problem);

}  // namespace octet
