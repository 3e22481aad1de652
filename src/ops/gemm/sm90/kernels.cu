// The kernels of block-scaled operands, and where each kernel is found.
#include "core/message.hpp"
#include "ops/gemm/sm90/kernels.cuh"

namespace octet {

const Sm90GemmKernel& sm90_gemm_kernel(const Sm90GemmConfig& config) {
  for (const auto& kernels :
       {compiled_kernels<kSm90GemmConfigs>(), sm90_narrow_kernels(), sm90_promoted_kernels(),
        sm90_unpromoted_kernels(), sm90_bf16_kernels(), sm90_f16_kernels(), sm90_wide_kernels()}) {
    for (const Sm90GemmKernel& entry : kernels) {
      if (entry.config == config) return entry;
    }
  }
  fail(ErrorCode::internal, "gemm: configuration ", name(config), " was not compiled");
}

}  // namespace octet
