// The kernels of bf16 operands.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_bf16_kernels() {
  return compiled_kernels<kSm90Configs16<Dtype::bf16>>();
}

}  // namespace octet
