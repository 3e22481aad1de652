// Stub for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/moe_maps/problem.hpp"

namespace octet {

void launch_sm90_moe_maps(const MoeMapsProblem&, const MoeMapsArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "moe_maps: this build of octet has no CUDA");
}

}  // namespace octet
