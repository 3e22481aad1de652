// Which problems the Hopper kernels for scales of lines take. Compiled with and without CUDA.
#include "core/checks.hpp"
#include "ops/quantize/forms.hpp"
#include "ops/quantize/launches.hpp"
#include "ops/quantize/refusals.hpp"
#include "ops/quantize/whole/lines.hpp"

namespace octet {
namespace {

std::string refuse(const QuantizeProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_input(problem, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.batch > 0 || problem.groups > 0 || problem.fold_mx) {
    return "takes one matrix, without mx inside";
  }
  for (const auto& block : {problem.block, problem.transposed_block}) {
    if (block && !line_form(*block, false, false)) {
      return text("takes blocks of 1xall, allx1, allxall, 1x128 and 128x1, the problem has ",
                  octet::name(*block), ": cast one copy per call");
    }
  }
  return refuse_many_tiles(problem);
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCudaSm90Lines{
    "cuda_sm90_lines", refuse, [](const QuantizeProblem& problem, const Machine&) {
      if (const int vectors = vectors_of_a_row(problem); vectors > 0) {
        return planned<QuantizeArgs>(problem, text("rows vectors=", vectors), 0, launch_sm90_rows);
      }
      const std::int64_t words = line_maxima(problem).words();
      return planned<QuantizeArgs>(problem, words > 0 ? "128x128 passes=2" : "128x128 passes=1",
                                   static_cast<std::size_t>(words) * sizeof(std::uint32_t),
                                   launch_sm90_lines);
    }};

}  // namespace octet
