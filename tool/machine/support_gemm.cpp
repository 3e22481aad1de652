#include "tool/machine/probe.hpp"

#include "ops/gemm/problem.hpp"

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

}  // namespace octet::tool
