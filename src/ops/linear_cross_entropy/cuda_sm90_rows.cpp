// Which problems the Hopper kernels of linear_cross_entropy take. Compiled with and without CUDA.
#include "ops/linear_cross_entropy/rows.hpp"

namespace octet {
namespace {

std::string refuse(const LossRowsProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  return problem.cols >= std::int64_t{1} << 30 ? "more than 2^30 words" : "";
}

}  // namespace

constinit const LossRowsImplementation kLossRowsCudaSm90{
    "cuda_sm90_rows", refuse, [](const LossRowsProblem& problem, const Machine&) {
      return planned<LossRowsStep>(problem, "block per row", 0, launch_sm90_loss_rows);
    }};

}  // namespace octet
