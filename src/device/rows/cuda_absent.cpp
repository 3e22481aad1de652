// A build without CUDA has no row kernels. Never reached: it has no device to plan for.
#include "core/message.hpp"
#include "ops/gated_activation/cuda_sm90.hpp"
#include "ops/rms_norm/cuda_sm90_rows.hpp"
#include "ops/rms_norm/cuda_sm90_tile.hpp"
#include "ops/rms_norm_rope/cuda_sm90_heads.hpp"
#include "ops/rope/cuda_sm90_heads.hpp"

namespace octet {
namespace {

constexpr const char* kAbsent = "this build of octet has no CUDA";

}  // namespace

void launch_sm90_rms_norm_rows(const RmsNormProblem&, const RmsNormForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: ", kAbsent);
}
void launch_sm90_rms_norm_rows(const RmsNormProblem&, const RmsNormBackwardGrid&,
                               const RmsNormBackwardArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: ", kAbsent);
}
void launch_sm90_rms_norm_tile(const RmsNormProblem&, const RmsNormForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm: ", kAbsent);
}
void launch_sm90_rope(const RopeProblem&, const RopeArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rope: ", kAbsent);
}
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem&, const RmsNormRopeForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm_rope: ", kAbsent);
}
void launch_sm90_rms_norm_rope(const RmsNormRopeProblem&, std::int64_t,
                               const RmsNormRopeBackwardArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "rms_norm_rope: ", kAbsent);
}
void launch_sm90_gated_vectors(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: ", kAbsent);
}
void launch_sm90_gated_vectors(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                               const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: ", kAbsent);
}
void launch_sm90_gated_tile(const GatedActivationProblem&, const GatedActivationForwardArgs&,
                            const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: ", kAbsent);
}
void launch_sm90_gated_tile(const GatedActivationProblem&, const GatedActivationBackwardArgs&,
                            const RunContext&) {
  fail(ErrorCode::no_device, "gated_activation: ", kAbsent);
}

}  // namespace octet
