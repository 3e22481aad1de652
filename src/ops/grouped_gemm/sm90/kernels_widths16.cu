// The kernels of all widths of 128-row tiles over rows of groups, of 16-bit operands: one for each dtype and major of b.
// Apart from kernels_bf16.cu and kernels_f16.cu, whose digests published rows carry, while they are run by name only.
#include "ops/grouped_gemm/sm90/row_widths.cuh"

namespace octet {

template <Dtype kDtype, Major kMajor>
struct RowWidths16 {
  static constexpr auto kWidths = kSm90RowWidths16<kDtype, kMajor>;
};

Sm90GroupedGemmKernel sm90_kernel_of_row_widths16(const Sm90GemmConfig& gemm) {
  const bool k_major = gemm.b_major == Major::k;
  if (gemm.a == Dtype::bf16) {
    return k_major ? sm90::widths_kernel<RowWidths16<Dtype::bf16, Major::k>>()
                   : sm90::widths_kernel<RowWidths16<Dtype::bf16, Major::mn>>();
  }
  return k_major ? sm90::widths_kernel<RowWidths16<Dtype::f16, Major::k>>()
                 : sm90::widths_kernel<RowWidths16<Dtype::f16, Major::mn>>();
}

}  // namespace octet
