// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/attention/sm90/backward.hpp"

namespace octet {

std::function<void(const AttentionBackwardArgs&, const RunContext&)> sm90_attention_backward_run(
    const AttentionProblem&, attention::BackwardPlan) {
  fail(ErrorCode::no_device, "attention: this build of octet has no CUDA");
}

}  // namespace octet
