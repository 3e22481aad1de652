// quantize, dequantize and repack.
#include "tool/machine/support.hpp"

#include "ops/dequantize/problem.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/repack/problem.hpp"

namespace octet::tool {

std::vector<Support> probe_quantize() {
  struct Layout {
    std::optional<BlockShape> block;
    std::optional<BlockShape> transposed;
  };
  const Layout layouts[] = {{kBlock1x128, {}},           {{}, kBlock1x128},
                            {kBlock1x128, kBlock1x128},  {kBlock128x1, {}},
                            {kBlock128x128, {}},         {kBlock128x128, kBlock128x128},
                            {kBlock1x128, kBlock128x128}};
  std::vector<Support> result;
  for (const auto& [block, transposed] : layouts) {
    const std::string blocks = fmt::format(
        "{}{}", block ? name(*block) : "",
        transposed ? fmt::format("{}{} transposed", block ? " + " : "", name(*transposed)) : "");
    for (const Dtype format : kProbeFp8) {
      for (const Dtype input : kProbeFloats) {
        QuantizeProblem problem;
        problem.rows = problem.cols = kProbeExtent;
        problem.input = input;
        problem.format = format;
        problem.block = block;
        problem.transposed_block = transposed;
        result.push_back({"quantize", blocks, std::string(name(input)), std::string(name(format)),
                          answers(quantize_implementations(), problem)});
      }
    }
  }
  return result;
}

std::vector<Support> probe_copies() {
  std::vector<Support> result;
  const BlockShape blocks[] = {kBlock1x128, kBlock128x1, kBlock128x128};
  for (const BlockShape block : blocks) {
    for (const Dtype format : kProbeFp8) {
      for (const Dtype out : kProbeFloats) {
        DequantizeProblem problem;
        problem.rows = problem.cols = kProbeExtent;
        problem.format = format;
        problem.block = block;
        problem.out = out;
        result.push_back({"dequantize", name(block), std::string(name(format)),
                          std::string(name(out)), answers(dequantize_implementations(), problem)});
      }
    }
  }
  for (const BlockShape block : blocks) {
    for (const Dtype format : kProbeFp8) {
      RepackProblem problem;
      problem.rows = problem.cols = kProbeExtent;
      problem.format = format;
      problem.block = block;
      result.push_back({"repack", name(block), std::string(name(format)), "the same",
                        answers(repack_implementations(), problem)});
    }
  }
  return result;
}

}  // namespace octet::tool
