// The host side of cuda_sm90_wgmma over groups: the configurations that are compiled, the choice of one, its
// kernel, and the launch. The kernels are those of gemm (ops/gemm/sm90), with tiles found through the group
// table.
#pragma once

#include "ops/gemm/sm90/config.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace octet {

// Over rows: tiles of 128 rows waste less where groups end, those of 256 in a cluster read less; a single
// 256x128 wastes no columns where N has an odd number of 128. Tiles of 128 rows of e4m3 . e4m3 have four widths in
// one kernel. Over the contraction: paired columns need K in
// groups of 16. Mixes other than e4m3 . e4m3 get one tile each, with a second for e5m2 . e4m3, the weight
// gradient of a layer with e5m2 gradients.
inline constexpr Sm90GroupedGemmConfig kSm90GroupedGemmConfigs[] = {
    {Groups::rows,
     {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3, Columns::in_order, 2}},
    {Groups::rows, {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::rows,
     {128, 256, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
     Width::by_sizes},
    {Groups::rows, {128, 256, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::rows, {128, 192, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::rows, {128, 160, 5, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::rows, {128, 128, 6, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::rows, {128, 256, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e5m2}},
    {Groups::rows, {128, 256, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e4m3}},
    {Groups::rows, {128, 256, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e5m2}},
    {Groups::contraction, {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3}},
    {Groups::contraction, {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e5m2}},
    {Groups::contraction, {256, 128, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e4m3}},
    {Groups::contraction, {256, 128, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e5m2}},
    {Groups::contraction,
     {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3, Columns::paired}},
    {Groups::contraction,
     {256, 128, 4, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3, Columns::paired}},
    {Groups::contraction, {128, 128, 6, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3}},
    {Groups::contraction, {128, 128, 6, Promotion::one_by_one, Dtype::e4m3, Dtype::e5m2}},
    {Groups::contraction, {128, 128, 6, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3}},
    {Groups::contraction, {128, 128, 6, Promotion::one_by_one, Dtype::e5m2, Dtype::e5m2}},
};

// Of one 16-bit dtype. a has rows of tokens over rows, b either major; over the contraction both are read as they lie.
template <Dtype kDtype>
inline constexpr Sm90GroupedGemmConfig kSm90GroupedConfigs16[] = {
    {Groups::rows, config16(kDtype, Major::k, Major::k, 256, 128, 4, 2)},
    {Groups::rows, config16(kDtype, Major::k, Major::k, 128, 256, 4), Width::by_sizes},
    {Groups::rows, config16(kDtype, Major::k, Major::k, 128, 256, 4)},
    {Groups::rows, config16(kDtype, Major::k, Major::k, 128, 192, 5)},
    {Groups::rows, config16(kDtype, Major::k, Major::k, 128, 128, 6)},
    {Groups::rows, config16(kDtype, Major::k, Major::mn, 256, 128, 4, 2)},
    {Groups::rows, config16(kDtype, Major::k, Major::mn, 128, 256, 4), Width::by_sizes},
    {Groups::rows, config16(kDtype, Major::k, Major::mn, 128, 256, 4)},
    {Groups::rows, config16(kDtype, Major::k, Major::mn, 128, 192, 5)},
    {Groups::rows, config16(kDtype, Major::k, Major::mn, 128, 128, 6)},
    {Groups::contraction, config16(kDtype, Major::mn, Major::mn, 256, 128, 4)},
    {Groups::contraction, config16(kDtype, Major::mn, Major::mn, 128, 128, 6)},
};

// Every configuration that is compiled.
std::span<const Sm90GroupedGemmConfig> sm90_grouped_gemm_configs();

// The fixed widths of 128-row tiles among `kConfigs`, widest first, that one kernel has for these operands.
template <const auto& kConfigs, Dtype kDtype, Major kMajor>
inline constexpr auto kRowWidthsOf = [] {
  constexpr auto is_one = [](const Sm90GroupedGemmConfig& c) {
    return c.groups == Groups::rows && c.width == Width::fixed && c.gemm.tile_m == 128 &&
           c.gemm.a == kDtype && c.gemm.b == kDtype && c.gemm.b_major == kMajor;
  };
  std::array<Sm90GroupedGemmConfig, std::ranges::count_if(kConfigs, is_one)> widths{};
  std::ranges::copy_if(kConfigs, widths.begin(), is_one);
  return widths;
}();
// e4m3 . e4m3, whose fixed widths run in that kernel as well, and 16-bit operands, whose fixed widths have their own.
inline constexpr auto kSm90RowWidths = kRowWidthsOf<kSm90GroupedGemmConfigs, Dtype::e4m3, Major::k>;
template <Dtype kDtype, Major kMajor>
inline constexpr auto kSm90RowWidths16 =
    kRowWidthsOf<kSm90GroupedConfigs16<kDtype>, kDtype, kMajor>;
inline constexpr int kRowWidths = static_cast<int>(kSm90RowWidths.size());
constexpr bool is_row_width(const Sm90GroupedGemmConfig& c) {
  return std::ranges::find(kSm90RowWidths, c) != kSm90RowWidths.end();
}

// Those of the kernel that runs a tile by sizes.
std::span<const Sm90GroupedGemmConfig> sm90_row_widths(const Sm90GemmConfig& gemm);

// "rows 256x128x4 1x128.128x128 e4m3.e4m3 cluster", "rows 128x256x4 1x128.128x128 e4m3.e4m3 or narrower"
std::string name(const Sm90GroupedGemmConfig& c);
// The compiled configuration of this name; nothing where there is none.
std::optional<Sm90GroupedGemmConfig> parse_sm90_grouped_gemm_config(std::string_view text);

// Whether a configuration is for the operands of a problem and for as many multiprocessors.
bool sm90_grouped_gemm_fits(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
                            int multiprocessors);

// Predicted clocks of one product, the mean over several ways in which the expected rows may be spread over the
// groups.
double sm90_grouped_gemm_clocks(const GroupedGemmProblem& problem,
                                const Sm90GroupedGemmConfig& config, int multiprocessors);

// The configuration with the fewest predicted clocks among those that fit.
const Sm90GroupedGemmConfig& choose_sm90_grouped_gemm(const GroupedGemmProblem& problem,
                                                      int multiprocessors);

// Clocks of one round of tiles over rows, which all take the same.
double sm90_row_tile_clocks(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm);

// Tiles that a launch has at most, over all groups, in clusters.
std::int64_t sm90_most_tiles(const GroupedGemmProblem& problem,
                             const Sm90GroupedGemmConfig& config);

// The compiled kernel of a configuration; null where it was not compiled for these groups.
struct Sm90GroupedGemmKernel {
  const void* function = nullptr;
  int shared_bytes = 0;
};
Sm90GroupedGemmKernel sm90_kernel_over_rows(const Sm90GroupedGemmConfig& config);
Sm90GroupedGemmKernel sm90_kernel_over_contraction(const Sm90GroupedGemmConfig& config);
Sm90GroupedGemmKernel sm90_grouped_kernel_bf16(const Sm90GroupedGemmConfig& config);
Sm90GroupedGemmKernel sm90_grouped_kernel_f16(const Sm90GroupedGemmConfig& config);
// Those of all widths over rows, which are launched with row_widths.cuh.
Sm90GroupedGemmKernel sm90_kernel_of_row_widths();
Sm90GroupedGemmKernel sm90_kernel_of_row_widths16(const Sm90GemmConfig& gemm);

// What runs the problem with `config`, which fits it, on at most so many multiprocessors. Nothing on the
// device is touched before the first run. A run throws Error where the device refuses, or where the kernel
// cannot read a layout.
std::function<void(const GroupedGemmArgs&, const RunContext&)> sm90_grouped_gemm_run(
    const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config, int multiprocessors);

}  // namespace octet
