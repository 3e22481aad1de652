#include "ops/gated_mlp/state.hpp"

#include <algorithm>

namespace octet {
namespace {

constexpr std::string_view kOp = "gated_mlp";

// Always FP8 and with down.
GatedMlpProblem fp8_training(GatedMlpProblem problem) {
  check_trains(kOp, "Fp8Mlp", problem.training, problem.weights_quantized);
  problem.fp8 = problem.down = true;
  return problem;
}

}  // namespace

Fp8Mlp::Fp8Mlp(const GatedMlpProblem& problem, const Fp8LinearOptions& options,
               const Allocator& allocator)
    : forward_(plan_gated_mlp_forward(fp8_training(problem), options)),
      backward_(plan_gated_mlp_backward(fp8_training(problem), options)) {
  const GatedMlpSavedLayout layout = gated_mlp_saved_layout(fp8_training(problem));
  gate_up_ = Tensor(problem.dtype, {problem.m, 2 * problem.f}, problem.device, allocator);
  x_t_ = allocate(layout.x_t, problem.device, allocator);
  w_gate_up_t_ = allocate(layout.w_gate_up_t, problem.device, allocator);
  h_t_ = allocate(layout.h_t, problem.device, allocator);
  w_down_t_ = allocate(layout.w_down_t, problem.device, allocator);
  workspace_ = Buffer(std::max(forward_.workspace_bytes, backward_.workspace_bytes), problem.device,
                      allocator);
}

GatedMlpSaved Fp8Mlp::saved() const {
  GatedMlpSaved saved;
  saved.gate_up = gate_up_;
  saved.x_t = x_t_;
  saved.w_gate_up_t = w_gate_up_t_;
  saved.h_t = h_t_;
  saved.w_down_t = w_down_t_;
  return saved;
}

void Fp8Mlp::forward(const TensorView& x, const TensorView& w_gate_up, const TensorView& w_down,
                     const TensorView& y, void* stream) {
  GatedMlpForwardArgs args;
  args.x = x;
  args.w_gate_up = w_gate_up;
  args.w_down = w_down;
  args.y = y;
  args.saved = saved();
  run(forward_, args, {workspace_.data(), workspace_.bytes()}, stream);
  has_saved_ = true;
}

void Fp8Mlp::backward(const TensorView& dy, const TensorView& dx, const TensorView& dw_gate_up,
                      const TensorView& dw_down, void* stream) {
  check_has_saved(kOp, has_saved_);
  GatedMlpBackwardArgs args;
  args.dy = dy;
  args.saved = saved();
  args.dx = dx;
  args.dw_gate_up = dw_gate_up;
  args.dw_down = dw_down;
  run(backward_, args, {workspace_.data(), workspace_.bytes()}, stream);
}

}  // namespace octet
