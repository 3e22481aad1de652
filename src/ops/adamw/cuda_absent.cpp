// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/adamw/problem.hpp"

namespace octet {

void launch_sm90_adamw(const AdamWProblem&, const AdamWArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "adamw: this build of octet has no CUDA");
}
void launch_sm90_adamw_tile(const AdamWProblem&, const AdamWArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "adamw: this build of octet has no CUDA");
}

}  // namespace octet
