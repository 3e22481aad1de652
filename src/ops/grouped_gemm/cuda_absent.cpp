// A stub for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/grouped_gemm/sm90/wgmma.hpp"

namespace octet {

std::function<void(const GroupedGemmArgs&, const RunContext&)> sm90_grouped_gemm_run(
    const GroupedGemmProblem&, const Sm90GroupedGemmConfig&, int) {
  return [](const GroupedGemmArgs&, const RunContext&) {
    fail(ErrorCode::no_device, "grouped_gemm: this build of octet has no CUDA");
  };
}

}  // namespace octet
