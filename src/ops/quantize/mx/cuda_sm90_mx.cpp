// Which problems the Hopper kernel for mx blocks takes. Compiled with and without CUDA.
#include "core/checks.hpp"
#include "ops/quantize/forms.hpp"
#include "ops/quantize/launches.hpp"
#include "ops/quantize/refusals.hpp"

namespace octet {
namespace {

std::string refuse(const QuantizeProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_input(problem, machine); !refusal.empty()) {
    return refusal;
  }
  for (const auto& block : {problem.block, problem.transposed_block}) {
    if (block && !is_mx(*block) && !problem.fold_mx) {
      return text("takes 1x32 and 32x32 blocks and what they fold into, the problem has ",
                  octet::name(*block), ": cast one copy per call");
    }
  }
  return refuse_many_tiles(problem);
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCudaSm90Mx{
    "cuda_sm90_mx", refuse, [](const QuantizeProblem& problem, const Machine&) {
      return planned<QuantizeArgs>(problem, "128x128", 0, launch_sm90_mx);
    }};

}  // namespace octet
