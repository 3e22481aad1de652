// Which problems the Hopper quantiser takes. Compiled with and without CUDA.
#include "ops/quantize/problem.hpp"

#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"

namespace octet {
namespace {

std::string refuse(const QuantizeProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.batch > 0) return "batches have no CUDA kernel yet";
  if (problem.groups > 0) return "groups have no CUDA kernel yet";
  if (problem.block == kBlock128x1 || problem.transposed_block == kBlock128x1) {
    return kNo128x1Kernel;
  }
  if (ceil_div(problem.rows, kBlock) >
      (std::int64_t{1} << 31) / ceil_div(problem.cols, kBlock) - 1) {
    return "more than 2^31 tiles of 128x128";
  }
  return "";
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCudaSm90Tile{
    "cuda_sm90_tile", refuse, [](const QuantizeProblem& problem, const Machine&) {
      return planned<QuantizeArgs>(problem, "128x128", 0, launch_sm90_tile);
    }};

}  // namespace octet
