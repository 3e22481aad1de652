// What a block of the Hopper product is given, and its shared memory.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/gemm/sm90/config.hpp"

#include <cuda.h>

#include <cstddef>

namespace octet::sm90 {

// How finished tiles leave: in boxes through the copy engine, where rows lie and end on 16-byte
// boundaries; else 16-bit rows by the lanes, 16 bytes at a time, where columns are in order; else element
// by element, as do those that are added to a bf16 d.
enum class Store { boxes, rows, elements };

struct GemmParams {
  int m;
  int n;
  int slices;             // ceil(K / 128)
  Raster raster;          // of the clusters' tiles
  const float* b_scales;  // [ceil(N / 128)][b_scale_pitch], 128x128 blocks alone
  std::int64_t b_scale_pitch;
  int b_scale_rows;
  Store store;
  void* d;  // [M, N], rows d_pitch elements apart
  std::int64_t d_pitch;
  Dtype d_dtype;
  bool accumulate;
};

struct OperandMaps {
  CUtensorMap values;  // [rows, K] bytes, boxes of 128 x the rows of a tile
  CUtensorMap scales;  // [slices, rows] f32, boxes of as many x 1
};

struct GemmMaps {
  OperandMaps a;       // values in boxes of tile_m / cluster
  OperandMaps a_last;  // in boxes of the rows that the last tiles have; loads_present_rows alone
  OperandMaps b;       // values in order or paired; scales of 1x128 blocks alone
  CUtensorMap d;       // [M, N], boxes of box_cols x 16
};

// The tiles of a block, one after the other. The blocks of a cluster have neighbours of one row.
template <class C>
struct Tiles {
  static constexpr int kCluster = C::value.cluster;
  int index = blockIdx.x / kCluster;  // of the cluster's tiles

  __device__ __forceinline__ bool left(const GemmParams& params) const {
    return index < params.raster.count();
  }
  __device__ __forceinline__ void advance() { index += gridDim.x / kCluster; }
  __device__ __forceinline__ bool more(const GemmParams& params) const {
    return index + static_cast<int>(gridDim.x / kCluster) < params.raster.count();
  }
  __device__ __forceinline__ TileIndex tile(const GemmParams& params) const {
    TileIndex tile = params.raster.tile(index);
    if constexpr (kCluster > 1) {
      tile.n = tile.n * kCluster + static_cast<int>(ptx::cluster_rank());
    }
    return tile;
  }
};

template <class C>
struct alignas(1024) SharedStorage {
  static constexpr Sm90GemmConfig config = C::value;
  std::uint8_t a[config.stages][config.tile_m * kSliceBytes];
  std::uint8_t b[config.stages][config.tile_n * kSliceBytes];
  std::uint8_t staging[kConsumers * 4][kStagingBytes];
  float a_scales[config.stages][config.tile_m];
  float b_scales[config.stages][b_scale_slots(config)];
  std::uint64_t full[config.stages];
  std::uint64_t empty[config.stages];
};

// The storage is the plan that tests without a GPU look at.
template <class C>
constexpr bool follows_plan() {
  using Storage = SharedStorage<C>;
  constexpr Sm90SharedPlan plan = shared_plan(C::value);
  return offsetof(Storage, a) == plan.a && offsetof(Storage, b) == plan.b &&
         offsetof(Storage, staging) == plan.staging &&
         offsetof(Storage, a_scales) == plan.a_scales &&
         offsetof(Storage, b_scales) == plan.b_scales && offsetof(Storage, full) == plan.full &&
         offsetof(Storage, empty) == plan.empty && sizeof(Storage) == plan.bytes;
}

}  // namespace octet::sm90
