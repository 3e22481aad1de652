#include "ops/fp8_output/unfused.hpp"

#include "ops/rms_norm/problem.hpp"

namespace octet {
namespace {

struct Steps {
  static QuantizeProblem cast(const RmsNormProblem& problem) { return forward_cast(problem); }
  static RmsNormForwardArgs into(RmsNormForwardArgs args, const TensorView& output) {
    args.y = output;
    return args;
  }
  static std::span<const RmsNormForwardImplementation> list() {
    return rms_norm_forward_implementations();
  }
};

}  // namespace

QuantizeProblem forward_cast(const RmsNormProblem& problem) {
  return quantize_problem(problem.fp8.value_or(Fp8Output{}), problem.rows, problem.cols,
                          problem.dtype, problem.device);
}

const RmsNormForwardImplementation kRmsNormForwardUnfused =
    Unfused<Steps, RmsNormProblem, RmsNormForwardArgs>::implementation();

}  // namespace octet
