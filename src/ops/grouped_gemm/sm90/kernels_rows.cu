// The Hopper product over rows of groups in FP8: a kernel per configuration, and one of all widths of 128-row tiles.
#include "ops/grouped_gemm/sm90/kernels.cuh"
#include "ops/grouped_gemm/sm90/row_widths.cuh"

namespace octet {

struct RowWidths {
  static constexpr auto kWidths = kSm90RowWidths;
};

Sm90GroupedGemmKernel sm90_kernel_over_rows(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kSm90GroupedGemmConfigs, is_over_rows>(config);
}

Sm90GroupedGemmKernel sm90_kernel_of_row_widths() { return sm90::widths_kernel<RowWidths>(); }

}  // namespace octet
