// What the plans of the layer hold: a fixed sequence of quantize and gemm plans, and where their
// operands lie in the workspace.
#pragma once

#include "core/checks.hpp"
#include "core/workspace.hpp"

#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/quantize.hpp>

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

inline BlockShape x_t_block(const Fp8LinearProblem& problem) {
  return problem.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128;
}
inline bool saves_x(const Fp8LinearProblem& problem) { return problem.training && problem.need_dw; }
inline bool saves_w(const Fp8LinearProblem& problem) { return problem.training && problem.need_dx; }

void check(const Fp8LinearProblem& problem);

}  // namespace octet
