#include "core/views.hpp"
#include "ops/fp8_output/unfused.hpp"

#include "ops/gated_activation/problem.hpp"

namespace octet {
namespace {

struct ForwardSteps {
  static QuantizeProblem cast(const GatedActivationProblem& problem) {
    return forward_cast(problem);
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
  static QuantizeProblem cast(const GatedActivationProblem& problem) {
    return backward_cast(problem);
  }
  // The gradients are the halves of the columns.
  static GatedActivationBackwardArgs into(GatedActivationBackwardArgs args,
                                          const TensorView& output) {
    args.dgate = Halves(output).gate;
    args.dup = Halves(output).up;
    return args;
  }
  static std::span<const GatedActivationBackwardImplementation> list() {
    return gated_activation_backward_implementations();
  }
};

}  // namespace

QuantizeProblem forward_cast(const GatedActivationProblem& problem) {
  QuantizeProblem cast = quantize_problem(problem.fp8.value_or(Fp8Output{}), problem.rows,
                                          problem.cols, problem.dtype, problem.device);
  cast.groups = problem.groups;
  cast.tail = problem.tail;
  return cast;
}

QuantizeProblem backward_cast(const GatedActivationProblem& problem) {
  QuantizeProblem cast = forward_cast(problem);
  cast.cols = 2 * problem.cols;
  return cast;
}

const GatedActivationForwardImplementation kGatedActivationForwardUnfused =
    Unfused<ForwardSteps, GatedActivationProblem, GatedActivationForwardArgs>::implementation();
const GatedActivationBackwardImplementation kGatedActivationBackwardUnfused =
    Unfused<BackwardSteps, GatedActivationProblem, GatedActivationBackwardArgs>::implementation();

}  // namespace octet
