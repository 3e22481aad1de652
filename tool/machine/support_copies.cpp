// dequantize and repack.
#include "tool/machine/probe.hpp"

#include "ops/dequantize/problem.hpp"
#include "ops/repack/problem.hpp"

namespace octet::tool {

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
