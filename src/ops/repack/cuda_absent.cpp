// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/repack/problem.hpp"

namespace octet {

void launch_sm90_repack(const RepackProblem&, const RepackArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "repack: this build of octet has no CUDA");
}

}  // namespace octet
