// A build without CUDA: there are no devices, and that is no error until one is asked for.
#include "device/cublaslt.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/gemm/cublaslt.hpp"
#include "ops/gemm/sm90/launch.hpp"
#include "ops/quantize/cuda_sm90_tile.hpp"

namespace octet {
namespace {

constexpr const char* kAbsent = "this build of octet has no CUDA";

}  // namespace

// Never reached: a build without CUDA has no device to plan for.
std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem&,
                                                                      const Sm90GemmConfig&, int) {
  return [](const GemmArgs&, const RunContext&) { fail(ErrorCode::no_device, "gemm: ", kAbsent); };
}
void launch_cublaslt(const GemmProblem&, const GemmArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "gemm: ", kAbsent);
}
void launch_sm90_tile(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "quantize: ", kAbsent);
}

}  // namespace octet

namespace octet::cuda {

bool built_with_cuda() noexcept { return false; }
bool cublaslt_is_installed() { return false; }
int device_count() noexcept { return 0; }
std::string driver_status() { return kAbsent; }

DeviceProperties properties(int device) {
  fail(ErrorCode::no_device, "device cuda:", device, ": ", driver_status());
}

int multiprocessors(int device) { return properties(device).multiprocessors; }

void* allocate(std::size_t, int) { return nullptr; }
void release(void*, int) noexcept {}
void clear(void*, std::size_t, int) {}
void copy(void*, const void*, std::size_t, int device) { (void)properties(device); }
void synchronize(int device) { (void)properties(device); }

}  // namespace octet::cuda
