// The kernels of f16 operands.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_f16_kernels() {
  return compiled_kernels<kSm90Configs16<Dtype::f16>>();
}

}  // namespace octet
