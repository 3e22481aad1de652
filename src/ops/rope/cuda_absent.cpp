// Where octet is built without CUDA. Never reached: such a build has no CUDA device to run on.
#include "ops/rope/cuda_sm90_heads.hpp"

namespace octet {

void launch_sm90_rope(const RopeProblem&, const RopeArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rope: this build of octet has no CUDA");
}

}  // namespace octet
