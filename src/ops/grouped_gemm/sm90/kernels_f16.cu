// The kernels of f16 operands over groups.
#include "ops/grouped_gemm/sm90/kernels.cuh"

namespace octet {

Sm90GroupedGemmKernel sm90_grouped_kernel_f16(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kSm90GroupedConfigs16<Dtype::f16>, is_any>(config);
}

}  // namespace octet
