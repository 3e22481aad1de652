#include "ops/fp8_output/unfused.hpp"

#include "ops/rms_norm/problem.hpp"

namespace octet {
namespace {

struct Steps {
  static RmsNormProblem plain(RmsNormProblem problem) {
    problem.fp8.reset();
    return problem;
  }
  static QuantizeProblem cast(const RmsNormProblem& problem) {
    return quantize_problem(problem.fp8.value_or(Fp8Output{}), problem.rows, problem.cols,
                            problem.dtype, problem.device);
  }
  static RmsNormForwardArgs into(RmsNormForwardArgs args, const TensorView& output) {
    args.y = output;
    return args;
  }
  static std::span<const RmsNormForwardImplementation> list() {
    return rms_norm_forward_implementations();
  }
};

}  // namespace

const RmsNormForwardImplementation kRmsNormForwardUnfused =
    Unfused<Steps, RmsNormProblem, RmsNormForwardArgs>::implementation();

}  // namespace octet
