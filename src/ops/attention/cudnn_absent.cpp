// Stubs for builds without CUDA, or without the headers of cuDNN: there the implementation refuses
// every problem, and only plans for a device that is not there come here.
#include "ops/attention/problem.hpp"

namespace octet {

Planned<AttentionForwardArgs> cudnn_forward_plan(const AttentionProblem&) {
  fail(ErrorCode::unsupported, "attention: this build of octet has no cuDNN");
}
Planned<AttentionBackwardArgs> cudnn_backward_plan(const AttentionProblem&, bool) {
  fail(ErrorCode::unsupported, "attention: this build of octet has no cuDNN");
}

}  // namespace octet
