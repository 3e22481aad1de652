// What the plans of the layer hold: a fixed sequence of quantize and gemm plans, and where their
// operands lie in the workspace.
#pragma once

#include "core/checks.hpp"

#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/quantize.hpp>

#include <algorithm>
#include <cstddef>

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

// The bytes of a workspace that holds these pieces, and the pieces of such a workspace in turn.
inline std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(const Workspace& workspace) : rest_(workspace) {}

  // The next `bytes`; null where there are none to take.
  void* take(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* piece = rest_.data;
    const std::size_t step = aligned_bytes(bytes);
    rest_.data = static_cast<char*>(rest_.data) + step;
    rest_.bytes -= step;
    return piece;
  }
  Workspace rest() const { return rest_; }

 private:
  Workspace rest_;
};

inline BlockShape x_t_block(const Fp8LinearProblem& problem) {
  return problem.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128;
}
inline bool saves_x(const Fp8LinearProblem& problem) { return problem.training && problem.need_dw; }
inline bool saves_w(const Fp8LinearProblem& problem) { return problem.training && problem.need_dx; }

void check(const Fp8LinearProblem& problem);

}  // namespace octet
