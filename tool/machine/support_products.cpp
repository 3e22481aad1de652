// gemm, and the layers made of products and casts: fp8_linear and gated_mlp.
#include "tool/machine/support.hpp"

#include "ops/fp8_linear/state.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/gated_mlp/state.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {

namespace {

GemmProblem gemm_probe(GemmOperand a, GemmOperand b, Dtype out, bool accumulate) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = kProbeExtent;
  problem.a = a;
  problem.b = b;
  problem.out = out;
  problem.accumulate = accumulate;
  return problem;
}

// One product with every kind of output.
void add_outputs(std::vector<Support>& result, const std::string& blocks, const std::string& dtypes,
                 GemmOperand a, GemmOperand b) {
  for (const bool accumulate : {false, true}) {
    for (const Dtype out : kProbeFloats) {
      result.push_back({"gemm", blocks, dtypes,
                        fmt::format("{}{}", accumulate ? "+= " : "", name(out)),
                        answers(gemm_implementations(), gemm_probe(a, b, out, accumulate))});
    }
  }
}

}  // namespace

std::vector<Support> probe_gemm() {
  const BlockShape pairs[][2] = {{kBlock1x128, kBlock128x128},
                                 {kBlock128x128, kBlock1x128},
                                 {kBlock1x128, kBlock1x128},
                                 {kBlock128x128, kBlock128x128}};
  std::vector<Support> result;
  for (const auto& [a_block, b_block] : pairs) {
    for (const Dtype a : kProbeFp8) {
      for (const Dtype b : kProbeFp8) {
        add_outputs(result, fmt::format("{} . {}", name(a_block), name(b_block)),
                    fmt::format("{} . {}", name(a), name(b)), {a, a_block, Major::k},
                    {b, b_block, Major::k});
      }
    }
  }
  for (const Dtype dtype : kProbeFloats) {
    add_outputs(result, "none", std::string(name(dtype)), {dtype, {}, Major::k},
                {dtype, {}, Major::k});
  }
  return result;
}

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
