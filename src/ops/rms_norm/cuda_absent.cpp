// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/rms_norm/whole/row_cast.hpp"

namespace octet {

void launch_sm90_rms_norm_rows(const RmsNormProblem&, const RmsNormForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: this build of octet has no CUDA");
}
void launch_sm90_rms_norm_rows(const RmsNormProblem&, const RmsNormBackwardGrid&,
                               const RmsNormBackwardArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: this build of octet has no CUDA");
}
void launch_sm90_rms_norm_row_cast(const RmsNormProblem&, const RmsNormForwardArgs&,
                                   const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: this build of octet has no CUDA");
}
void launch_sm90_rms_norm_tile(const RmsNormProblem&, const RmsNormForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: this build of octet has no CUDA");
}

}  // namespace octet
