// The Hopper product over rows of groups: a kernel per configuration, and one of all widths of 128-row tiles, in
// which every launch takes the width that its sizes fill best.
#include "ops/grouped_gemm/sm90/kernels.cuh"
#include "ops/grouped_gemm/sm90/row_widths.cuh"

namespace octet {
namespace sm90 {

// Nothing of one width is kept in registers for another: without the marks and the exit, ptxas shares values
// between them and spills.
template <class C, int kIndex>
__device__ __forceinline__ void run_width(const RowWidthsLaunch& launch, int width,
                                          std::uint32_t base, GroupTile entry) {
  if (width != kIndex) return;
  asm volatile("// width %0" ::"n"(kIndex) : "memory");
  if (threadIdx.x == kIndex) GroupTiles<C>::store_first_entry(base, entry);
  __syncwarp();
  const RowMaps maps{launch.a, launch.a_last, launch.b[kIndex], launch.d[kIndex]};
  run_roles<C>(base, maps, launch.params[kIndex]);
  asm volatile("// end of width %0\n\texit;" ::"n"(kIndex) : "memory");
}

template <int... kIndex>
__device__ __forceinline__ void run_widths(const RowWidthsLaunch& launch, int width,
                                           std::uint32_t base, GroupTile entry,
                                           std::integer_sequence<int, kIndex...>) {
  (run_width<GroupedConstant<kSm90RowWidths[kIndex]>, kIndex>(launch, width, base, entry), ...);
}

// What a block needs of the table is loaded at once: the head, and for each width the entry of its first tile, by a
// lane each.
template <class>
__global__ __launch_bounds__(kThreads, 1) void gemm_widths_kernel(
    const __grid_constant__ RowWidthsLaunch launch) {
  using Widest = GroupedConstant<kSm90RowWidths[0]>;
  std::uint32_t base = shared_base();
  launch.prefetch_maps();
  init_barriers<Widest>(base, kMostRowStages, launch.store);
  ptx::wait_for_earlier_kernels();
  GroupTile entry{};
  if (threadIdx.x < kRowWidths) entry = launch.first_entry(static_cast<int>(threadIdx.x));
  int width = launch.choose();
  ptx::make_opaque(width);
  ptx::make_opaque(base);
  run_widths(launch, width, base, entry, std::make_integer_sequence<int, kRowWidths>());
}

}  // namespace sm90

Sm90GroupedGemmKernel sm90_kernel_over_rows(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kSm90GroupedGemmConfigs, is_over_rows>(config);
}

Sm90GroupedGemmKernel sm90_kernel_of_row_widths() {
  int bytes = 0;
  for (const Sm90GroupedGemmConfig& width : kSm90RowWidths)
    bytes = std::max(bytes, shared_bytes(width));
  return {reinterpret_cast<const void*>(&sm90::gemm_widths_kernel<void>), bytes};
}

}  // namespace octet
