// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/attention/sm90/backward/backward.hpp"
#include "ops/attention/sm90/forward/forward.hpp"

namespace octet {
namespace {

// In place of a run.
template <class Args>
void refuse(const Args&, const RunContext&) {
  fail(ErrorCode::no_device, "attention: this build of octet has no CUDA");
}

}  // namespace

std::function<void(const AttentionForwardArgs&, const RunContext&)> sm90_attention_forward_run(
    const AttentionProblem&, const Sm90AttentionForwardConfig&, int) {
  return refuse<AttentionForwardArgs>;
}

std::function<void(const AttentionBackwardArgs&, const RunContext&)> sm90_attention_backward_run(
    const AttentionProblem&, const attention::BackwardPlan&) {
  return refuse<AttentionBackwardArgs>;
}

}  // namespace octet
