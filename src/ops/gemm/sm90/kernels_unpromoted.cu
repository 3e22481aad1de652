// The kernels of FP8 operands with fast_accumulation.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_unpromoted_kernels() {
  return compiled_kernels<kSm90UnpromotedConfigs>();
}

}  // namespace octet
