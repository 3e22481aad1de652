// The configurations that are compiled, best first among equals: kernels.cu and kernels_*.cu make one kernel of each.
#pragma once

#include "ops/gemm/sm90/config.hpp"

namespace octet {

// Block-scaled operands. Mixes other than e4m3 . e4m3 get a large and a small tile. 64x128, 64x64 and 64x32 are for
// few rows, which are bound by reading b from memory: the more multiprocessors load, the better.
inline constexpr Sm90GemmConfig kSm90GemmConfigs[] = {
    {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3, Columns::in_order, 2},
    {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {128, 256, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {128, 128, 6, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {64, 128, 8, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {64, 64, 10, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {64, 32, 12, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e5m2},
    {128, 128, 6, Promotion::product_of_scales, Dtype::e4m3, Dtype::e5m2},
    {256, 128, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e4m3},
    {128, 128, 6, Promotion::product_of_scales, Dtype::e5m2, Dtype::e4m3},
    {256, 128, 4, Promotion::product_of_scales, Dtype::e5m2, Dtype::e5m2},
    {128, 128, 6, Promotion::product_of_scales, Dtype::e5m2, Dtype::e5m2},
    {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3, Columns::paired, 2},
    {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3, Columns::paired},
    {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3},
    {128, 128, 6, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3},
    {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e5m2, Columns::paired},
    {256, 128, 4, Promotion::one_by_one, Dtype::e4m3, Dtype::e5m2},
    {128, 128, 6, Promotion::one_by_one, Dtype::e4m3, Dtype::e5m2},
    {256, 128, 4, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3, Columns::paired},
    {256, 128, 4, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3},
    {128, 128, 6, Promotion::one_by_one, Dtype::e5m2, Dtype::e4m3},
    {256, 128, 4, Promotion::one_by_one, Dtype::e5m2, Dtype::e5m2, Columns::paired},
    {128, 128, 6, Promotion::one_by_one, Dtype::e5m2, Dtype::e5m2},
};

// For shapes that leave the last wave of the large tiles partly empty.
inline constexpr Sm90GemmConfig kSm90NarrowConfigs[] = {
    {128, 192, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {128, 160, 5, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},
    {64, 128, 8, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3, Columns::paired},
    {64, 64, 10, Promotion::one_by_one, Dtype::e4m3, Dtype::e4m3, Columns::paired},
};

// Scales at the end.
inline constexpr Sm90GemmConfig kSm90PromotedConfigs[] = {
    {256, 128, 4, Promotion::sum, Dtype::e4m3, Dtype::e4m3, Columns::in_order, 2},
    {256, 128, 4, Promotion::sum, Dtype::e4m3, Dtype::e4m3},
    {128, 256, 4, Promotion::sum, Dtype::e4m3, Dtype::e4m3},
    {128, 128, 6, Promotion::sum, Dtype::e4m3, Dtype::e4m3},
    {64, 128, 8, Promotion::sum, Dtype::e4m3, Dtype::e4m3},
    {64, 64, 10, Promotion::sum, Dtype::e4m3, Dtype::e4m3},
    {256, 128, 4, Promotion::sum, Dtype::e4m3, Dtype::e5m2},
    {128, 128, 6, Promotion::sum, Dtype::e4m3, Dtype::e5m2},
    {256, 128, 4, Promotion::sum, Dtype::e5m2, Dtype::e4m3},
    {128, 128, 6, Promotion::sum, Dtype::e5m2, Dtype::e4m3},
    {256, 128, 4, Promotion::sum, Dtype::e5m2, Dtype::e5m2},
    {128, 128, 6, Promotion::sum, Dtype::e5m2, Dtype::e5m2},
};

// The same with fast_accumulation. Where consumers take tiles in turn, one stores under the products of the other.
constexpr Sm90GemmConfig unpromoted_in_turn(int tile_m, int tile_n, int stages, int cluster) {
  Sm90GemmConfig config{tile_m, tile_n, stages, Promotion::none, Dtype::e4m3, Dtype::e4m3};
  config.cluster = cluster;
  config.in_turn = true;
  return config;
}
inline constexpr Sm90GemmConfig kSm90UnpromotedConfigs[] = {
    unpromoted_in_turn(128, 192, 5, 2),
    unpromoted_in_turn(128, 128, 6, 1),
    {256, 128, 4, Promotion::none, Dtype::e4m3, Dtype::e4m3, Columns::in_order, 2},
    {256, 128, 4, Promotion::none, Dtype::e4m3, Dtype::e4m3},
    {128, 256, 4, Promotion::none, Dtype::e4m3, Dtype::e4m3},
    {128, 128, 6, Promotion::none, Dtype::e4m3, Dtype::e4m3},
    {64, 128, 8, Promotion::none, Dtype::e4m3, Dtype::e4m3},
    {256, 128, 4, Promotion::none, Dtype::e4m3, Dtype::e5m2},
    {128, 128, 6, Promotion::none, Dtype::e4m3, Dtype::e5m2},
    {256, 128, 4, Promotion::none, Dtype::e5m2, Dtype::e4m3},
    {128, 128, 6, Promotion::none, Dtype::e5m2, Dtype::e4m3},
    {256, 128, 4, Promotion::none, Dtype::e5m2, Dtype::e5m2},
    {128, 128, 6, Promotion::none, Dtype::e5m2, Dtype::e5m2},
};

// Those of one 16-bit dtype. Few rows are those of a forward product or a data gradient.
template <Dtype kDtype>
inline constexpr Sm90GemmConfig kSm90Configs16[] = {
    config16(kDtype, Major::k, Major::k, 256, 128, 4, 2),
    config16(kDtype, Major::k, Major::k, 256, 128, 4),
    config16(kDtype, Major::k, Major::k, 128, 256, 4),
    config16(kDtype, Major::k, Major::k, 128, 128, 6),
    config16(kDtype, Major::k, Major::k, 64, 128, 8),
    config16(kDtype, Major::k, Major::k, 64, 64, 10),
    config16(kDtype, Major::k, Major::mn, 256, 128, 4, 2),
    config16(kDtype, Major::k, Major::mn, 256, 128, 4),
    config16(kDtype, Major::k, Major::mn, 128, 256, 4),
    config16(kDtype, Major::k, Major::mn, 128, 128, 6),
    config16(kDtype, Major::k, Major::mn, 64, 128, 8),
    config16(kDtype, Major::mn, Major::mn, 256, 128, 4, 2),
    config16(kDtype, Major::mn, Major::mn, 256, 128, 4),
    config16(kDtype, Major::mn, Major::mn, 128, 256, 4),
    config16(kDtype, Major::mn, Major::mn, 128, 128, 6),
    config16(kDtype, Major::mn, Major::k, 256, 128, 4),
    config16(kDtype, Major::mn, Major::k, 128, 128, 6),
};

// Clusters that share b of joined waves: 1.2 % ahead of single tiles over 12 forward products in turns of 60 ms, 2.7 % behind
// at worst (docs/experiments.md). Run by name until they are measured in longer ones.
template <Dtype kDtype>
inline constexpr Sm90GemmConfig kSm90Wide16 = config16(kDtype, Major::k, Major::k, 128, 256, 4, 2);
inline constexpr Sm90GemmConfig kSm90WideConfigs[] = {kSm90Wide16<Dtype::bf16>,
                                                      kSm90Wide16<Dtype::f16>};

}  // namespace octet
