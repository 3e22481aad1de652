// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/linear_cross_entropy/rows.hpp"

namespace octet {

void launch_sm90_loss_rows(const LossRowsProblem&, const LossRowsStep&, const RunContext&) {
  fail(ErrorCode::no_device, "linear_cross_entropy: this build of octet has no CUDA");
}

}  // namespace octet
