// The kernels of 16-bit operands whose clusters share b. Apart from kernels_bf16.cu and kernels_f16.cu, whose digests
// published rows carry, while they are run by name only.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_wide_kernels() { return compiled_kernels<kSm90WideConfigs>(); }

}  // namespace octet
