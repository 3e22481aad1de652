// The parameters of the Hopper product, the tiles of a block, and its shared memory.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/gemm/sm90/config.hpp"

#include <cuda.h>

#include <cstddef>

namespace octet::sm90 {

// How finished tiles are stored. boxes: through TMA, where rows of d start and end on 16-byte boundaries.
// rows: 16-bit rows by the lanes, 16 bytes at a time, where columns are in order. elements: one by one, for
// everything else and for adding to a bf16 d.
// staged: 16-bit boxes of 64 rows that leave while the next tile is multiplied (store_staged.cuh).
enum class Store { boxes, rows, elements, staged };
constexpr bool stores_boxes(Store store) { return store == Store::boxes || store == Store::staged; }
constexpr int box_rows(Store store) { return store == Store::staged ? kWaveM : kBoxRows; }

struct GemmParams {
  int m;
  int n;
  int slices;             // ceil(K / 128)
  Raster raster;          // of the clusters' tiles
  const float* b_scales;  // [ceil(N / 128)][b_scale_pitch], for 128x128 blocks only
  std::int64_t b_scale_pitch;
  int b_scale_rows;
  Store store;
  void* d;  // [M, N], rows d_pitch elements apart
  std::int64_t d_pitch;
  Dtype d_dtype;
  bool accumulate;
  Dtype bias_dtype;
  const void* bias;  // [N], or null
};

// The same with a scale per row of a and of b, or one of all of them (a step of 0).
struct EndScaledParams : GemmParams {
  const float* a_rows;
  std::int64_t a_step;
  const float* b_rows;
  std::int64_t b_step;
};

struct OperandMaps {
  // [rows, K] bytes, boxes of 128 x the rows of a tile; mn-major [K, rows], boxes of 128 x 64 of the contraction
  CUtensorMap values;
  CUtensorMap
      scales;  // [slices, rows] f32, boxes of as many x 1; over groups, from a multiple of four
};

struct GemmMaps {
  OperandMaps a;  // values in boxes of loaded_rows_of_a
  OperandMaps
      a_last;  // in boxes of the rows up to M; only where is_load_bound. Over rows of groups, boxes
               // of four scales
  OperandMaps b;  // values in order or paired; scales only for 1x128 blocks
  CUtensorMap d;  // [M, N], boxes of box_cols x 16, staged 64
};

// The same of one width in a kernel of several, which share the maps of a.
struct RowMaps {
  struct Values {
    CUtensorMap values;
  };
  const OperandMaps& a;
  const OperandMaps& a_last;
  const Values& b;
  const CUtensorMap& d;
};

// The tiles of a block, one after the other. The blocks of a cluster take neighbouring tiles.
template <class C>
struct Tiles {
  static constexpr int kCluster = C::value.cluster;
  __device__ __forceinline__ Tiles(std::uint32_t /*base*/, const GemmParams& /*params*/) {}
  int index = blockIdx.x / kCluster;  // of the cluster's tiles

  __device__ __forceinline__ bool valid(const GemmParams& params) const {
    return index < params.raster.count();
  }
  __device__ __forceinline__ void advance() { index += gridDim.x / kCluster; }
  __device__ __forceinline__ bool more(const GemmParams& params) const {
    return index + static_cast<int>(gridDim.x / kCluster) < params.raster.count();
  }
  __device__ __forceinline__ TileIndex tile(const GemmParams& params) const {
    TileIndex tile = params.raster.tile(index);
    if constexpr (kCluster > 1) {
      int& shared = shares_b(C::value) ? tile.m : tile.n;
      shared = shared * kCluster + static_cast<int>(ptx::cluster_rank());
    }
    return tile;
  }
  // A number that grows from tile to tile.
  __device__ __forceinline__ int position() const { return index; }
  // The same for all tiles.
  __device__ __forceinline__ int slices(const GemmParams& params) const { return params.slices; }
};

// A configuration over groups as a type; `value` is what dense code reads.
template <Sm90GroupedGemmConfig kConfig>
struct GroupedConstant {
  static constexpr Sm90GemmConfig value = kConfig.gemm;
  static constexpr Groups groups = kConfig.groups;
};
// The same as one of the widths of a kernel of several (Width::by_sizes).
template <Sm90GroupedGemmConfig kConfig>
struct WidthConstant : GroupedConstant<kConfig> {};

template <class C>
inline constexpr Groups kGroups = Groups::none;
template <Sm90GroupedGemmConfig kConfig>
inline constexpr Groups kGroups<GroupedConstant<kConfig>> = kConfig.groups;
template <Sm90GroupedGemmConfig kConfig>
inline constexpr Groups kGroups<WidthConstant<kConfig>> = kConfig.groups;

template <class C>
struct alignas(1024) SharedStorage {
  static constexpr Sm90GemmConfig config = C::value;
  static_assert(config.stages <= kMostStages);
  std::uint64_t full[kMostStages];
  std::uint64_t empty[kMostStages];
  std::uint64_t staged[kConsumers][kMostStagedWaves];
  std::uint64_t stored;
  std::int32_t stored_before[kMostCluster];
  alignas(kSharedAlignment) std::uint8_t a[config.stages][config.tile_m * kSliceBytes];
  std::uint8_t b[config.stages][config.tile_n * kSliceBytes];
  std::uint8_t staging[staging_bytes(config)];
  float a_scales[scale_buffers(config)][a_scale_slots(config, kGroups<C>)];
  float b_scales[scale_buffers(config)][b_scale_slots(config)];

  // Shared addresses of the barriers of a stage, from that of the storage.
  static __device__ __forceinline__ std::uint32_t full_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, full) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t empty_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, empty) + 8 * stage;
  }
  static __device__ __forceinline__ std::uint32_t staged_at(std::uint32_t base, int consumer,
                                                            int wave) {
    return base + offsetof(SharedStorage, staged) + 8 * (consumer * kMostStagedWaves + wave);
  }
  static __device__ __forceinline__ std::uint32_t stored_at(std::uint32_t base) {
    return base + offsetof(SharedStorage, stored);
  }
  static __device__ __forceinline__ std::uint32_t stored_before_at(std::uint32_t base, int block) {
    return base + offsetof(SharedStorage, stored_before) + 4 * block;
  }
  // And of its operands and scales.
  static __device__ __forceinline__ std::uint32_t a_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, a) + stage * sizeof(a[0]);
  }
  static __device__ __forceinline__ std::uint32_t b_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, b) + stage * sizeof(b[0]);
  }
  static __device__ __forceinline__ std::uint32_t a_scales_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, a_scales) + stage * sizeof(a_scales[0]);
  }
  static __device__ __forceinline__ std::uint32_t b_scales_at(std::uint32_t base, int stage) {
    return base + offsetof(SharedStorage, b_scales) + stage * sizeof(b_scales[0]);
  }
  static __device__ __forceinline__ std::uint32_t shift_at(std::uint32_t base, int stage) {
    return b_scales_at(base, stage) + kShiftSlot * 4;
  }
};

// Whether the struct has the offsets of shared_plan(), which tests without a GPU check.
template <class C>
constexpr bool follows_plan() {
  using Storage = SharedStorage<C>;
  constexpr Sm90SharedPlan plan = shared_plan(C::value, kGroups<C>);
  return offsetof(Storage, a) == plan.a && offsetof(Storage, b) == plan.b &&
         offsetof(Storage, staging) == plan.staging &&
         offsetof(Storage, a_scales) == plan.a_scales &&
         offsetof(Storage, b_scales) == plan.b_scales && offsetof(Storage, full) == plan.full &&
         offsetof(Storage, empty) == plan.empty && offsetof(Storage, staged) == plan.staged &&
         offsetof(Storage, stored) == plan.stored &&
         offsetof(Storage, stored_before) == plan.stored_before && sizeof(Storage) == plan.bytes;
}

}  // namespace octet::sm90
