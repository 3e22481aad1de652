// Which problems the Hopper kernel of gated_activation with a scale per row takes. Compiled with and
// without CUDA.
#include "ops/fp8_output/checks.hpp"
#include "ops/gated_activation/whole/row_cast.hpp"

namespace octet {
namespace {

std::string refuse(const GatedActivationProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_row_cast(problem, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.groups > 0) return "takes rows without groups";
  if (problem.cols <= kGatedRowMost) return "";
  return text("takes rows of at most ", kGatedRowMost, " columns, the problem has ", problem.cols);
}

}  // namespace

constinit const GatedActivationForwardImplementation kGatedActivationForwardCudaSm90RowCast{
    "cuda_sm90_row_cast", refuse, [](const GatedActivationProblem& problem, const Machine&) {
      const RowThreads row = row_threads(problem.cols);
      return planned<GatedActivationForwardArgs>(
          problem, text("row in registers, ", row.count, " threads of ", row.vectors, " vectors"),
          0, launch_sm90_gated_row_cast);
    }};

}  // namespace octet
