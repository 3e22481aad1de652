// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/gated_activation/whole/row_cast.hpp"

namespace octet {

void launch_sm90_gated_vectors(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_vectors(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_tile(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                            const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_tile(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                            const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_row_cast(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                                const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_group_rows(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                                  const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_group_rows(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                                  const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_groups(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                              const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}
void launch_sm90_gated_groups(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                              const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: this build of octet has no CUDA");
}

}  // namespace octet
