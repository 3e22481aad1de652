#include "ops/fp8_output/unfused.hpp"

#include "ops/gated_activation/problem.hpp"

namespace octet {
namespace {

GatedActivationProblem without_fp8(GatedActivationProblem problem) {
  problem.fp8.reset();
  return problem;
}

QuantizeProblem cast_of(const GatedActivationProblem& problem, std::int64_t cols) {
  return quantize_problem(problem.fp8.value_or(Fp8Output{}), problem.rows, cols, problem.dtype,
                          problem.device);
}

struct ForwardSteps {
  static GatedActivationProblem plain(const GatedActivationProblem& problem) {
    return without_fp8(problem);
  }
  static QuantizeProblem cast(const GatedActivationProblem& problem) {
    return cast_of(problem, problem.cols);
  }
  static GatedActivationForwardArgs into(GatedActivationForwardArgs args,
                                         const TensorView& output) {
    args.y = output;
    return args;
  }
  static std::span<const GatedActivationForwardImplementation> list() {
    return gated_activation_forward_implementations();
  }
};

struct BackwardSteps {
  static GatedActivationProblem plain(const GatedActivationProblem& problem) {
    return without_fp8(problem);
  }
  static QuantizeProblem cast(const GatedActivationProblem& problem) {
    return cast_of(problem, 2 * problem.cols);
  }
  // The gradients are the halves of the columns.
  static GatedActivationBackwardArgs into(GatedActivationBackwardArgs args,
                                          const TensorView& output) {
    args.dgate = output;
    args.dgate.shape[1] = output.cols() / 2;
    args.dup = args.dgate;
    args.dup.data = static_cast<char*>(output.data) + args.dup.cols() * size_bytes(output.dtype);
    return args;
  }
  static std::span<const GatedActivationBackwardImplementation> list() {
    return gated_activation_backward_implementations();
  }
};

}  // namespace

const GatedActivationForwardImplementation kGatedActivationForwardUnfused =
    Unfused<ForwardSteps, GatedActivationProblem, GatedActivationForwardArgs>::implementation();
const GatedActivationBackwardImplementation kGatedActivationBackwardUnfused =
    Unfused<BackwardSteps, GatedActivationProblem, GatedActivationBackwardArgs>::implementation();

}  // namespace octet
