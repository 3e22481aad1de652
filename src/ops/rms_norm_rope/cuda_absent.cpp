// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/rms_norm_rope/problem.hpp"

namespace octet {

void launch_sm90_rms_norm_rope(const RmsNormRopeProblem&, const RmsNormRopeForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm_rope: this build of octet has no CUDA");
}
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem&, int, const RmsNormRopeBackwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm_rope: this build of octet has no CUDA");
}

}  // namespace octet
