// The kernels of FP8 operands whose scales are applied at the end.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_promoted_kernels() {
  return compiled_kernels<kSm90PromotedConfigs>();
}

}  // namespace octet
