// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/gemm/sm90/wgmma.hpp"

namespace octet {

std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem&,
                                                                      const Sm90GemmConfig&, int) {
  return [](const GemmArgs&, const RunContext&) {
    fail(ErrorCode::no_device, "gemm: this build of octet has no CUDA");
  };
}
void launch_cublaslt(const GemmProblem&, const GemmArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "gemm: this build of octet has no CUDA");
}

}  // namespace octet
