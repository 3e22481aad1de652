// The configurations of the Hopper product: plain numbers that print themselves and read themselves
// back, the list of those that are compiled, and what follows from the numbers, so that tests
// without a GPU can ask.
#pragma once

#include <octet/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace octet {

enum class Promotion {
  product_of_scales,  // 1x128 . 128x128: acc = fma(slice, sa * sb, acc)
  one_by_one,         // 1x128 . 1x128:   acc = fma(slice * sa, sb, acc)
};

// How the rows of b lie in a stage: as they are, or so that a thread's columns of d are four
// neighbours, whose scales are loaded at once (mma/layout.hpp). Paired rows want N in groups of 16.
enum class Columns { in_order, paired };

struct Sm90GemmConfig {
  int tile_m = 256;
  int tile_n = 128;
  int stages = 4;
  Promotion promotion = Promotion::product_of_scales;
  Dtype a = Dtype::e4m3;
  Dtype b = Dtype::e4m3;
  Columns columns = Columns::in_order;
  // Blocks with neighbouring columns of tiles, each of which loads a part of a for all.
  int cluster = 1;

  friend constexpr bool operator==(const Sm90GemmConfig&, const Sm90GemmConfig&) = default;
};

inline constexpr int kSliceBytes = 128;  // of the contraction: one stage
inline constexpr int kWaveM = 64;        // rows of one wgmma
inline constexpr int kMostWaveN = 128;   // and the most columns
inline constexpr int kScaleBlock = 128;  // columns of b that share a scale in a 128x128 block
inline constexpr int kConsumers = 2;     // warpgroups that multiply; a tile of one wave wants one
inline constexpr int kThreads = 128 * (kConsumers + 1);
inline constexpr int kBoxRows = 16;                         // of a warp, in which results leave,
inline constexpr int kBoxBytes = 128;                       // of each row, or all a wave has
inline constexpr int kStagingBytes = kBoxRows * kBoxBytes;  // per warp
inline constexpr int kSharedAlignment = 1024;               // of a swizzle atom
inline constexpr int kSharedLimit = 232448;                 // bytes a block may ask for on Hopper

// How the consumers share a tile, and the waves each has.
constexpr int consumers(const Sm90GemmConfig& c) {
  return c.tile_m == kWaveM && c.tile_n < kMostWaveN ? 1 : kConsumers;
}
constexpr bool consumers_split_m(const Sm90GemmConfig& c) { return c.tile_m > kWaveM; }
constexpr int consumer_rows(const Sm90GemmConfig& c) {
  return consumers_split_m(c) ? c.tile_m / consumers(c) : c.tile_m;
}
constexpr int consumer_cols(const Sm90GemmConfig& c) {
  return consumers_split_m(c) ? c.tile_n : c.tile_n / consumers(c);
}
constexpr int waves_m(const Sm90GemmConfig& c) { return consumer_rows(c) / kWaveM; }
constexpr int wave_n(const Sm90GemmConfig& c) { return std::min(consumer_cols(c), kMostWaveN); }
constexpr int waves_n(const Sm90GemmConfig& c) { return consumer_cols(c) / wave_n(c); }

// Whether the consumers' loop over stages is unrolled. Then every tile begins at stage 0, where the
// unrolled code does; else the ring goes on from tile to tile. Two operations per accumulator and
// unrolled stages spill.
constexpr bool stages_unrolled(const Sm90GemmConfig& c) {
  return c.promotion == Promotion::product_of_scales;
}

// Columns of a box of results, 16-bit or f32.
constexpr int box_cols(const Sm90GemmConfig& c, int element_bytes) {
  return std::min(wave_n(c), kBoxBytes / element_bytes);
}

// Tiles for few rows, which have one wave per consumer. The time of large ones is that of the products,
// theirs that of the loads, unless
// - the products of a stage are issued before those of the stage before are added up: the registers hold
//   those of two;
constexpr bool issues_ahead(const Sm90GemmConfig& c) {
  return stages_unrolled(c) && waves_m(c) * waves_n(c) == 1 && c.stages % 2 == 0;
}
// - a stage's loads follow each other at once;
constexpr bool loads_at_once(const Sm90GemmConfig& c) { return issues_ahead(c); }
// - rows of a that are not there are not loaded: the copy engine takes longer for them than for others.
//   What then lies in their place gives rows of products that do not leave.
constexpr bool loads_present_rows(const Sm90GemmConfig& c) { return issues_ahead(c); }

// Blocks of 128 columns that a tile has a part of: smaller tiles lie within one.
constexpr int b_scale_blocks(const Sm90GemmConfig& c) {
  return (c.tile_n + kScaleBlock - 1) / kScaleBlock;
}

// Floats of one stage's scales of b: one per column, or four slices of each 128-column block.
constexpr int b_scale_floats(const Sm90GemmConfig& c) {
  return c.promotion == Promotion::one_by_one ? c.tile_n : b_scale_blocks(c) * 4;
}

constexpr int stage_bytes(const Sm90GemmConfig& c) {
  return (c.tile_m + c.tile_n) * kSliceBytes + (c.tile_m + b_scale_floats(c)) * 4;
}

// What of it is not loaded where so many rows of a are not there: scales come in fours, 16 bytes.
constexpr int absent_bytes(int rows) { return rows * kSliceBytes + rows / 4 * 16; }

// What a block itself asks of the L2 cache for a stage.
constexpr int loaded_bytes(const Sm90GemmConfig& c) {
  return stage_bytes(c) - (c.tile_m - c.tile_m / c.cluster) * kSliceBytes;
}

// A stage's room for the scales of b: the copy engine wants its boxes on 128-byte boundaries.
constexpr int b_scale_slots(const Sm90GemmConfig& c) { return std::max(32, b_scale_floats(c)); }

// Where each part of the shared memory begins, in bytes from its 1024-byte aligned start.
struct Sm90SharedPlan {
  int a;         // [stages][tile_m * 128]
  int b;         // [stages][tile_n * 128]
  int staging;   // [8 warps][2048]
  int a_scales;  // [stages][tile_m] f32
  int b_scales;  // [stages][b_scale_slots] f32
  int full;      // [stages] barriers
  int empty;     // [stages] barriers
  int bytes;     // all of it, in whole swizzle atoms
};

constexpr Sm90SharedPlan shared_plan(const Sm90GemmConfig& c) {
  Sm90SharedPlan plan{};
  plan.b = plan.a + c.stages * c.tile_m * kSliceBytes;
  plan.staging = plan.b + c.stages * c.tile_n * kSliceBytes;
  plan.a_scales = plan.staging + kConsumers * 4 * kStagingBytes;
  plan.b_scales = plan.a_scales + c.stages * c.tile_m * 4;
  plan.full = plan.b_scales + c.stages * b_scale_slots(c) * 4;
  plan.empty = plan.full + c.stages * 8;
  plan.bytes =
      (plan.empty + c.stages * 8 + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  return plan;
}

// Bytes a launch asks for: the plan, and room to align it.
constexpr int shared_bytes(const Sm90GemmConfig& c) {
  return shared_plan(c).bytes + kSharedAlignment;
}

// Every configuration that is compiled: kernels.cu makes one kernel of each. Mixes other
// than e4m3 . e4m3 get a large and a small tile. 64x128, 64x64 and 64x32 are for few rows, whose time is
// that of b's way from memory: the more multiprocessors load, the better.
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

// "256x128x4 1x128.1x128 e4m3.e4m3 paired cluster": tile and stages, scale blocks, dtypes of a and b,
// columns, and whether blocks share a.
std::string name(const Sm90GemmConfig& c);

// The compiled configuration of this name; nothing where there is none.
std::optional<Sm90GemmConfig> parse_sm90_gemm_config(std::string_view text);

}  // namespace octet
