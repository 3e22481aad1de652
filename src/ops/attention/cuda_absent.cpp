// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/attention/sm90/forward.hpp"

namespace octet {

std::function<void(const AttentionForwardArgs&, const RunContext&)> sm90_attention_forward_run(
    const AttentionProblem&, const Sm90AttentionForwardConfig&, int) {
  return [](const AttentionForwardArgs&, const RunContext&) {
    fail(ErrorCode::no_device, "attention: this build of octet has no CUDA");
  };
}

}  // namespace octet
