#include "ops/grouped_gemm/sm90/kernels.cuh"

namespace octet {

Sm90GroupedGemmKernel sm90_kernel_over_contraction(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kSm90GroupedGemmConfigs, is_over_contraction>(config);
}

}  // namespace octet
