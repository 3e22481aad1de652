#include "ops/grouped_gemm/sm90/kernels.cuh"

namespace octet {

Sm90GroupedGemmKernel sm90_kernel_over_rows(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<Groups::rows>(config);
}

}  // namespace octet
