#include "tool/machine/probe.hpp"

#include "ops/gated_activation/problem.hpp"
#include "ops/gated_mlp/state.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

GatedMlpProblem probe_mlp(bool fp8, Dtype dtype) {
  GatedMlpProblem problem;
  problem.m = problem.f = problem.k = kProbeExtent;
  problem.down = true;
  problem.fp8 = fp8;
  problem.dtype = dtype;
  if (!fp8) problem.dw = dtype;
  return problem;
}

// The answers for an MLP are those for its parts: every one must be taken.
std::vector<std::string> mlp_answers(const GatedMlpForwardState& forward,
                                     const GatedMlpBackwardState& backward) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    for (const auto* plan : {&forward.quantize_x, &forward.quantize_w_gate_up,
                             &forward.quantize_w_down, &backward.quantize_dy}) {
      if (*plan) parts.add("quantize", answer(quantize_implementations(), (*plan)->problem, probe));
    }
    parts.add("gemm", answer(gemm_implementations(), forward.gate_up.problem, probe));
    for (const auto* plan :
         {&forward.down, &backward.dh, &backward.dw_down, &backward.dx, &backward.dw_gate_up}) {
      if (*plan) parts.add("gemm", answer(gemm_implementations(), (*plan)->problem, probe));
    }
    parts.add("activation", answer(gated_activation_forward_implementations(),
                                   forward.activation.problem.problem, probe));
    parts.add("activation", answer(gated_activation_backward_implementations(),
                                   backward.activation.problem.problem, probe));
    result.push_back(parts.text());
  }
  return result;
}

}  // namespace

std::vector<Support> probe_gated_mlp() {
  std::vector<Support> result;
  for (const bool fp8 : {true, false}) {
    for (const Dtype dtype : kProbeFloats) {
      const GatedMlpProblem problem = probe_mlp(fp8, dtype);
      const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem);
      const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem);
      result.push_back(
          {"gated_mlp", fp8 ? "blockwise" : "none", std::string(name(dtype)),
           fp8 ? "e4m3" : "the same",
           mlp_answers(*static_cast<const GatedMlpForwardState*>(forward.state.get()),
                       *static_cast<const GatedMlpBackwardState*>(backward.state.get()))});
    }
  }
  return result;
}

}  // namespace octet::tool
