// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/rope/problem.hpp"

namespace octet {

void launch_sm90_rope(const RopeProblem&, const RotateArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rope: this build of octet has no CUDA");
}

}  // namespace octet
