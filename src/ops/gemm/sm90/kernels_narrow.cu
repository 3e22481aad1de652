// The kernels of block-scaled operands with narrower tiles.
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

std::span<const Sm90GemmKernel> sm90_narrow_kernels() {
  return compiled_kernels<kSm90NarrowConfigs>();
}

}  // namespace octet
