// The support probes of gemm, and of fp8_linear, which is made of products and casts.
#include "tool/operators/operator.hpp"

#include "ops/fp8_linear/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

GemmProblem gemm_probe(GemmOperand a, GemmOperand b, Dtype out, bool accumulate) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = kProbeExtent;
  problem.a = a;
  problem.b = b;
  problem.out_dtype = out;
  problem.accumulate = accumulate;
  return problem;
}

// Adds one product with every kind of output.
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

std::vector<Support> probe_gemm() {
  const BlockShape pairs[][2] = {
      {kBlock1x128, kBlock128x128},   {kBlock128x128, kBlock1x128}, {kBlock1x128, kBlock1x128},
      {kBlock128x128, kBlock128x128}, {kEachRow, kEachRow},         {kWholeTensor, kWholeTensor},
      {kBlock1x32, kBlock1x32},       {kBlock1x32, kBlock32x32},    {kBlock32x32, kBlock1x32}};
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

// A layer is supported if every one of its casts and products is.
std::vector<std::string> layer_answers(const Fp8LinearForwardState& forward,
                                       const Fp8LinearBackwardState& backward) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    for (const QuantizePlan* plan :
         {&forward.quantize_x, &*forward.quantize_w, &*backward.quantize_dy}) {
      parts.add("quantize", answer(quantize_implementations(), plan->problem, probe));
    }
    for (const GemmPlan* plan : {&forward.product, &*backward.dx_product, &*backward.dw_product}) {
      parts.add("gemm", answer(gemm_implementations(), plan->problem, probe));
    }
    result.push_back(parts.text());
  }
  return result;
}

struct LayerProbe {
  const char* text;
  Granularity granularity;
  WgradBlocks blocks;
};
constexpr LayerProbe kLayerProbes[] = {
    {"blockwise, wgrad 1d", Granularity::blockwise, WgradBlocks::rows},
    {"blockwise, wgrad 2d", Granularity::blockwise, WgradBlocks::square},
    {"tensorwise", Granularity::tensorwise, WgradBlocks::rows},
    {"rowwise", Granularity::rowwise, WgradBlocks::rows},
    {"mxfp8, wgrad 1d", Granularity::mxfp8, WgradBlocks::rows},
    {"mxfp8, wgrad 2d", Granularity::mxfp8, WgradBlocks::square}};

std::vector<Support> probe_fp8_linear() {
  std::vector<Support> result;
  for (const LayerProbe& probe : kLayerProbes) {
    for (const Dtype input : kProbeFloats) {
      for (const ProbeFormats& formats : kProbeFormats) {
        Fp8LinearProblem problem;
        problem.m = problem.n = problem.k = kProbeExtent;
        problem.dtype = input;
        problem.format = formats.format;
        problem.grad_format = formats.grad_format;
        problem.granularity = probe.granularity;
        problem.wgrad_blocks = probe.blocks;
        const Fp8LinearForwardPlan forward = plan_fp8_linear_forward(problem);
        const Fp8LinearBackwardPlan backward = plan_fp8_linear_backward(problem);
        result.push_back(
            {"fp8_linear", probe.text, std::string(name(input)), formats.name,
             layer_answers(*static_cast<const Fp8LinearForwardState*>(forward.state.get()),
                           *static_cast<const Fp8LinearBackwardState*>(backward.state.get()))});
      }
    }
  }
  return result;
}

}  // namespace

std::vector<Support> probe_products() {
  std::vector<Support> result = probe_gemm();
  for (Support& layer : probe_fp8_linear()) result.push_back(std::move(layer));
  return result;
}

}  // namespace octet::tool
