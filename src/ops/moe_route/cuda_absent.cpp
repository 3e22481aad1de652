// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/moe_route/problem.hpp"

namespace octet {

void launch_sm90_moe_route(const MoeRouteProblem&, const MoeRouteForwardArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "moe_route: this build of octet has no CUDA");
}
void launch_sm90_moe_route(const MoeRouteProblem&, const MoeRouteBackwardArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "moe_route: this build of octet has no CUDA");
}

}  // namespace octet
