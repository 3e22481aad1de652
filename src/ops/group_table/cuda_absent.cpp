// Stub for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/group_table/problem.hpp"

namespace octet {

void launch_sm90_group_table(const GroupTableProblem&, const GroupTableArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "group_table: this build of octet has no CUDA");
}

}  // namespace octet
