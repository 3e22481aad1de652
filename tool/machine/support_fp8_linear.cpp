#include "tool/machine/probe.hpp"

#include "ops/fp8_linear/state.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

// The answers for a layer are those for its parts: every cast and every product must be taken.
std::vector<std::string> layer_answers(const ForwardState& forward, const BackwardState& backward) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    for (const QuantizePlan* plan :
         {&forward.quantize_x, &*forward.quantize_w, &backward.quantize_dy}) {
      parts.add("quantize", answer(quantize_implementations(), plan->problem, probe));
    }
    for (const GemmPlan* plan : {&forward.product, &*backward.dx_product, &*backward.dw_product}) {
      parts.add("gemm", answer(gemm_implementations(), plan->problem, probe));
    }
    result.push_back(parts.text());
  }
  return result;
}

}  // namespace

std::vector<Support> probe_fp8_linear() {
  std::vector<Support> result;
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    for (const Dtype input : kProbeFloats) {
      for (const Dtype grad_format : kProbeFp8) {
        Fp8LinearProblem problem;
        problem.m = problem.n = problem.k = kProbeExtent;
        problem.dtype = input;
        problem.grad_format = grad_format;
        problem.wgrad_blocks = blocks;
        const Fp8LinearForwardPlan forward = plan_fp8_linear_forward(problem);
        const Fp8LinearBackwardPlan backward = plan_fp8_linear_backward(problem);
        result.push_back(
            {"fp8_linear",
             blocks == WgradBlocks::rows ? "blockwise, wgrad 1d" : "blockwise, wgrad 2d",
             std::string(name(input)), fmt::format("e4m3 (dy {})", name(grad_format)),
             layer_answers(*static_cast<const ForwardState*>(forward.state.get()),
                           *static_cast<const BackwardState*>(backward.state.get()))});
      }
    }
  }
  return result;
}

}  // namespace octet::tool
