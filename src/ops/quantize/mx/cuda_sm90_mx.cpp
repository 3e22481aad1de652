// Which problems the Hopper kernel for mx blocks takes. Compiled with and without CUDA.
#include "core/checks.hpp"
#include "ops/quantize/forms.hpp"
#include "ops/quantize/launches.hpp"

namespace octet {
namespace {

std::string refuse(const QuantizeProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!is_16bit(problem.input_dtype)) {
    return text("takes bf16 and f16, the problem has ", name(problem.input_dtype));
  }
  for (const auto& block : {problem.block, problem.transposed_block}) {
    if (block && !is_mx(*block) && !problem.fold_mx) {
      return text("takes 1x32 and 32x32 blocks and what they fold into, the problem has ",
                  octet::name(*block), ": cast one copy per call");
    }
  }
  if (ceil_div(problem.rows, kBlock) >
      (std::int64_t{1} << 31) / ceil_div(problem.cols, kBlock) - 1) {
    return "more than 2^31 tiles of 128x128";
  }
  return "";
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCudaSm90Mx{
    "cuda_sm90_mx", refuse, [](const QuantizeProblem& problem, const Machine&) {
      return planned<QuantizeArgs>(problem, "128x128", 0, launch_sm90_mx);
    }};

}  // namespace octet
