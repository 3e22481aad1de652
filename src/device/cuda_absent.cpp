// A build without CUDA: there are no devices, and that is no error until one is asked for.
#include "device/cuda_runtime.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet {
namespace {

constexpr const char* kAbsent = "this build of octet has no CUDA";

// Takes its place in the list, and refuses everything.
template <class Problem, class Args>
constexpr Implementation<Problem, Args> absent(const char* name) {
  return {name, [](const Problem&, const Machine&) { return std::string(kAbsent); }, nullptr,
          nullptr, nullptr};
}

}  // namespace

const GemmImplementation kGemmCudaSm90Wgmma = absent<GemmProblem, GemmArgs>("cuda_sm90_wgmma");
const QuantizeImplementation kQuantizeCudaSm90Tile =
    absent<QuantizeProblem, QuantizeArgs>("cuda_sm90_tile");

}  // namespace octet

namespace octet::cuda {

bool built_with_cuda() noexcept { return false; }
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
