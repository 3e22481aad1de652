// Which problems the Hopper kernel of rms_norm with a scale per row takes. Compiled with and without
// CUDA.
#include "ops/fp8_output/checks.hpp"
#include "ops/rms_norm/whole/row_cast.hpp"

namespace octet {
namespace {

std::string refuse(const RmsNormProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_row_cast(problem, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.cols <= kNormedRowMost) return "";
  return text("takes rows of at most ", kNormedRowMost, " columns, the problem has ", problem.cols);
}

}  // namespace

constinit const RmsNormForwardImplementation kRmsNormForwardCudaSm90RowCast{
    "cuda_sm90_row_cast", refuse, [](const RmsNormProblem& problem, const Machine&) {
      const RowThreads row = normed_row_threads(problem.cols);
      return planned<RmsNormForwardArgs>(
          problem, text("row in registers, ", row.count, " threads of ", row.vectors, " vectors"),
          0, launch_sm90_rms_norm_row_cast);
    }};

}  // namespace octet
