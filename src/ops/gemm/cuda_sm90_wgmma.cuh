// d[M, N] (+)= a[M, K] b[N, K]^T on FP8 operands with block scales, for Hopper.
//
// A persistent grid of one block per multiprocessor: one warpgroup loads, two multiply. A stage of
// the ring is 128 of the contraction, the operands of a tile and their scales. Each consumer runs
// waves of m64n128: four wgmma steps give a slice, which is promoted to f32 accumulators with the
// scales. The wait for the next stage and the loads of its scales lie under the last wave of a
// stage. Without block scales the loop is bound by the tensor cores; 1x128 . 128x128 adds one f32
// operation per accumulator and slice, which they hide; 1x128 . 1x128 adds two, which they do not.
// Extents beyond M, N and K are zero: the copy engine fills and clips them.
#pragma once

#include "device/constant.hpp"
#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/dependent_launch.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/gemm/cuda_sm90_config.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <utility>

namespace octet::sm90 {

// How a finished tile leaves: through the copy engine, or element by element where d's pitch or
// dtype does not allow it.
enum class Store { box16, box32, add32, elements };

struct GemmParams {
  int m;
  int n;
  int slices;  // ceil(K / 128)
  Raster raster;
  const float* b_scales;  // [ceil(N / 128)][b_scale_pitch], 128x128 blocks alone
  std::int64_t b_scale_pitch;
  int b_scale_rows;
  Store store;
  void* d;  // [M, N], rows d_pitch elements apart
  std::int64_t d_pitch;
  Dtype d_dtype;
  bool accumulate;
};

struct GemmMaps {
  CUtensorMap a;         // [M, K] bytes, boxes of 128 x tile_m
  CUtensorMap b;         // [N, K] bytes, boxes of 128 x tile_n, the rows in order or paired
  CUtensorMap a_scales;  // [slices, M] f32, boxes of tile_m x 1
  CUtensorMap b_scales;  // [slices, N] f32, boxes of tile_n x 1; 1x128 blocks alone
  CUtensorMap d;         // [M, N], boxes of 128 bytes x 16
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

// A value ptxas may not recompute from its source: keeps the main loop free of address arithmetic.
// `opaque` is for what a warp has in common, `opaque_of_lane` for what each lane has of its own.
template <class T>
__device__ __forceinline__ T opaque(T value) {
  return __shfl_sync(~0u, value, 0);
}
template <class T>
__device__ __forceinline__ T opaque_of_lane(T value) {
  return __shfl_sync(~0u, value, threadIdx.x);
}

// Asked for where they are used, so that the main loop holds no register for them.
__device__ __forceinline__ int lane_index() {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ int warp_index() { return threadIdx.x / 32 % 4; }  // of the warpgroup
__device__ __forceinline__ int consumer_warpgroup() { return threadIdx.x / 128 - 1; }

// Loads ---------------------------------------------------------------------------------------

template <class C>
__device__ __forceinline__ void load_stage(std::uint32_t base, const GemmMaps& maps,
                                           const GemmParams& params, int stage, int slice, int m0,
                                           int n0) {
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  const std::uint32_t full = base + offsetof(Storage, full) + 8 * stage;
  ptx::barrier_expect_bytes(full, stage_bytes(c));
  ptx::load_box(base + offsetof(Storage, a) + stage * sizeof(Storage::a[0]), &maps.a,
                slice * kSliceBytes, m0, full);
  const std::uint32_t b = base + offsetof(Storage, b) + stage * sizeof(Storage::b[0]);
  if constexpr (c.columns == Columns::paired) {
    ptx::load_paired_box(b, &maps.b, slice * kSliceBytes, n0 / kPairedGroup, full);
  } else {
    ptx::load_box(b, &maps.b, slice * kSliceBytes, n0, full);
  }
  ptx::load_box(base + offsetof(Storage, a_scales) + stage * sizeof(Storage::a_scales[0]),
                &maps.a_scales, m0, slice, full);
  const std::uint32_t b_scales =
      base + offsetof(Storage, b_scales) + stage * sizeof(Storage::b_scales[0]);
  if constexpr (c.promotion == Promotion::one_by_one) {
    ptx::load_box(b_scales, &maps.b_scales, n0, slice, full);
  } else {
    // 16 bytes: the scales of four slices, of which the consumer takes one.
#pragma unroll
    for (int block = 0; block < c.tile_n / kWaveN; ++block) {
      const int row = min(n0 / kWaveN + block, params.b_scale_rows - 1);
      ptx::load_bytes(b_scales + 16 * block,
                      params.b_scales + row * params.b_scale_pitch + (slice & ~3), 16, full);
    }
  }
}

template <class C>
__device__ void load_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  constexpr Sm90GemmConfig c = C::value;
  using Storage = SharedStorage<C>;
  std::uint32_t phases = ~0u;  // an empty ring: the first wait for each stage returns at once
  int stage = 0;
#pragma unroll 1
  for (int index = blockIdx.x; index < params.raster.count(); index += gridDim.x) {
    const TileIndex tile = params.raster.tile(index);
    if constexpr (stages_unrolled(c)) stage = 0;
#pragma unroll 1
    for (int slice = 0; slice < params.slices; ++slice) {
      ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
      phases ^= 1u << stage;
      load_stage<C>(base, maps, params, stage, slice, tile.m * c.tile_m, tile.n * c.tile_n);
      stage = stage + 1 == c.stages ? 0 : stage + 1;
    }
  }
  // Consumers of a rolled ring await a stage beyond the last one: an empty one ends their wait.
  if constexpr (!stages_unrolled(c)) {
    ptx::barrier_wait(base + offsetof(Storage, empty) + 8 * stage, phases >> stage & 1);
    ptx::barrier_arrive(base + offsetof(Storage, full) + 8 * stage);
  }
}

// Products ------------------------------------------------------------------------------------

template <class C>
struct Consumer {
  static constexpr Sm90GemmConfig c = C::value;
  static constexpr bool kOneByOne = c.promotion == Promotion::one_by_one;
  static constexpr int kWavesM = waves_m(c);
  static constexpr int kWavesN = waves_n(c);
  static constexpr int kWaves = kWavesM * kWavesN;
  // Neighbouring columns of a thread in d, whose scales of b are loaded at once.
  static constexpr int kColumnsAtOnce = c.columns == Columns::paired ? 4 : 2;
  using Storage = SharedStorage<C>;
  static_assert(!kOneByOne || kWavesN == 1, "scales of b are held for one wave of columns");

  std::uint32_t base;
  std::uint32_t a_low;
  std::uint32_t b_low;
  std::uint32_t a_scale_address;
  std::uint32_t b_scale_address;
  std::uint32_t phases = 0;  // a bit per stage, where they are unrolled
  int ring_stage = 0;        // at hand, where they are not
  std::uint32_t ring_parity = 0;
  float acc[kWaves][64];                             // (wave, n/8*4), f32, the whole contraction
  float scale[kOneByOne ? 1 : kWavesN][kWavesM][2];  // sa * sb, or sa, of the stage at hand
  float next[kOneByOne ? 1 : kWavesN][kWavesM][2];
  float b_scale[kOneByOne ? 32 : 1];  // (n/8*2) of the stage at hand

  __device__ __forceinline__ explicit Consumer(std::uint32_t base_) : base(opaque(base_)) {
    const int warpgroup = opaque(consumer_warpgroup());
    const int lane = lane_index();
    const int warp = warp_index();
    const int row = consumers_split_m(c) ? warpgroup * consumer_rows(c) : 0;
    const int col = consumers_split_m(c) ? 0 : warpgroup * consumer_cols(c);
    a_low = opaque(descriptor_low(base + offsetof(Storage, a) + row * kSliceBytes));
    b_low = opaque(descriptor_low(base + offsetof(Storage, b) + col * kSliceBytes));
    a_scale_address = base + offsetof(Storage, a_scales) + (row + warp * 16 + lane / 4) * 4;
    b_scale_address = base + offsetof(Storage, b_scales) +
                      (kOneByOne ? (col + lane % 4 * kColumnsAtOnce) * 4 : col / kWaveN * 16);
    // Recomputed, it would be awaited behind every stage; columns in order have no register for it.
    if constexpr (c.columns == Columns::paired) b_scale_address = opaque_of_lane(b_scale_address);
  }

  __device__ __forceinline__ void wait_full(int stage, std::uint32_t parity) {
    ptx::barrier_wait(base + offsetof(Storage, full) + 8 * stage, parity);
  }

  __device__ __forceinline__ void release(int stage) {
    if (ptx::elect_lane()) ptx::barrier_arrive(base + offsetof(Storage, empty) + 8 * stage);
  }

  // The products of the next stage's scales, where those of b are uniform.
  __device__ __forceinline__ void load_scales(int stage, int slice) {
    const std::uint32_t a_at = a_scale_address + stage * sizeof(Storage::a_scales[0]);
    const std::uint32_t b_at =
        b_scale_address + stage * sizeof(Storage::b_scales[0]) + (slice & 3) * 4;
#pragma unroll
    for (int m = 0; m < kWavesM; ++m) {
      const float upper = ptx::load_shared(a_at + m * kWaveM * 4);
      const float lower = ptx::load_shared(a_at + m * kWaveM * 4 + 32);
#pragma unroll
      for (int n = 0; n < kWavesN; ++n) {
        const float b = ptx::load_shared(b_at + n * 16);
        next[n][m][0] = __fmul_rn(upper, b);
        next[n][m][1] = __fmul_rn(lower, b);
      }
    }
  }

  // The scales of a wave's rows, where those of b are not uniform.
  __device__ __forceinline__ void load_a_scales(int stage, int m) {
    const std::uint32_t from = a_scale_address + stage * sizeof(Storage::a_scales[0]);
    scale[0][m][0] = ptx::load_shared(from + m * kWaveM * 4);
    scale[0][m][1] = ptx::load_shared(from + m * kWaveM * 4 + 32);
  }

  __device__ __forceinline__ void load_b_scales(int stage) {
    const std::uint32_t from = b_scale_address + stage * sizeof(Storage::b_scales[0]);
#pragma unroll
    for (int i = 0; i < 32; i += kColumnsAtOnce) {
      if constexpr (kColumnsAtOnce == 4) {
        ptx::load_shared(from + i * 16, b_scale[i], b_scale[i + 1], b_scale[i + 2], b_scale[i + 3]);
      } else {
        ptx::load_shared(from + i * 16, b_scale[i], b_scale[i + 1]);
      }
    }
  }

  __device__ __forceinline__ void take_next_scales() {
#pragma unroll
    for (int n = 0; n < kWavesN; ++n) {
#pragma unroll
      for (int m = 0; m < kWavesM; ++m) {
        scale[n][m][0] = next[n][m][0];
        scale[n][m][1] = next[n][m][1];
      }
    }
  }

  __device__ __forceinline__ void issue(float (&slice)[64], int stage, int wave_m, int wave_n) {
    ptx::pin(slice);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t a = a_low + stage * (c.tile_m * kSliceBytes / 16) +
                              wave_m * (kWaveM * kSliceBytes / 16) + 2 * k;
      const std::uint32_t b = b_low + stage * (c.tile_n * kSliceBytes / 16) +
                              wave_n * (kWaveN * kSliceBytes / 16) + 2 * k;
      std::uint64_t a_descriptor;
      std::uint64_t b_descriptor;
      asm("mov.b64 %0, {%1, %2};" : "=l"(a_descriptor) : "r"(a), "r"(kDescriptorHigh));
      asm("mov.b64 %0, {%1, %2};" : "=l"(b_descriptor) : "r"(b), "r"(kDescriptorHigh));
      ptx::wgmma<c.a, c.b>(slice, a_descriptor, b_descriptor, k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit();
  }

  // Adds a finished slice to the wave's accumulators.
  __device__ __forceinline__ void promote(const float (&slice)[64], int wave) {
    const float upper = scale[kOneByOne ? 0 : wave % kWavesN][wave / kWavesN][0];
    const float lower = scale[kOneByOne ? 0 : wave % kWavesN][wave / kWavesN][1];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      const float row_scale = i % 4 < 2 ? upper : lower;
      if constexpr (kOneByOne) {
        const float col_scale = b_scale[i / 4 * 2 + i % 2];
        acc[wave][i] = fmaf(__fmul_rn(slice[i], row_scale), col_scale, acc[wave][i]);
      } else {
        acc[wave][i] = fmaf(slice[i], row_scale, acc[wave][i]);
      }
    }
  }

  // The waves of one stage. `prefetch` gets the next stage's scales ready, under the last wave.
  template <class Stage, class Prefetch>
  __device__ __forceinline__ void multiply_stage(Stage stage, Prefetch prefetch) {
    float slice[64];
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
      const bool last = wave == kWaves - 1;
      issue(slice, stage, wave / kWavesN, wave % kWavesN);
      if (last) prefetch();
      ptx::wgmma_wait();
      ptx::pin(slice);
      if (last) release(stage);
      promote(slice, wave);
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
#pragma unroll
      for (int i = 0; i < 64; ++i) acc[wave][i] = 0;
    }
  }

  // Waits for a stage whose number is a constant, and loads its scales.
  __device__ __forceinline__ void await_unrolled(int stage, int slice) {
    wait_full(stage, phases >> stage & 1);
    phases ^= 1u << stage;
    load_scales(stage, slice);
  }

  // One stage; `next_stage` < 0: there is none, and the tile is the last one. It is awaited under
  // the last wave, unless it is this very stage, which has to be released first: so it is where a
  // tile ends in the stage the next one begins with.
  template <class Stage>
  __device__ __forceinline__ void step_unrolled(Stage stage, int next_stage, int next_slice) {
    const bool same_stage = next_stage == stage;
    multiply_stage(stage, [&] {
      if (next_stage >= 0 && !same_stage) await_unrolled(next_stage, next_slice);
    });
    if (same_stage) await_unrolled(next_stage, next_slice);
    take_next_scales();
  }

  // The first stage of a tile follows the last of the one before; `more_tiles`: there is another.
  template <int... kStages>
  __device__ __forceinline__ void multiply_unrolled(int slices, bool more_tiles,
                                                    std::integer_sequence<int, kStages...>) {
    int slice = 0;
    const auto step = [&](auto stage) {
      constexpr int following =
          decltype(stage)::value + 1 == c.stages ? 0 : decltype(stage)::value + 1;
      ++slice;
      if (slice < slices) {
        step_unrolled(stage, following, slice);
        return true;
      }
      step_unrolled(stage, more_tiles ? 0 : -1, 0);
      return false;
    };
    while ((step(std::integral_constant<int, kStages>()) && ...)) {
    }
  }

  // The stage as a run-time value, which goes on from tile to tile. The stage behind the last one
  // is awaited like any other: the producer fills it with nothing. A wave's scales are replaced as
  // soon as they have been used, those of the last wave and of b behind its promotion.
  __device__ __forceinline__ void multiply_rolled(int slices) {
#pragma unroll 1
    for (int left = slices; left > 0; --left) {
      const int following = ring_stage + 1 == c.stages ? 0 : ring_stage + 1;
      if (following == 0) ring_parity ^= 1;
      multiply_stage(ring_stage, [&] {
        wait_full(following, ring_parity);
#pragma unroll
        for (int m = 0; m + 1 < kWavesM; ++m) load_a_scales(following, m);
      });
      load_a_scales(following, kWavesM - 1);
      load_b_scales(following);
      ring_stage = following;
    }
  }

  __device__ __forceinline__ void multiply(const GemmParams& params, bool more_tiles) {
    clear();
    if constexpr (stages_unrolled(c)) {
      multiply_unrolled(opaque(params.slices), more_tiles,
                        std::make_integer_sequence<int, c.stages>());
    } else {
      multiply_rolled(params.slices);
    }
  }

  // The ring's first stage, before the first tile.
  __device__ __forceinline__ void begin() {
    wait_full(0, 0);
    phases = 1;
    if constexpr (kOneByOne) {
#pragma unroll
      for (int m = 0; m < kWavesM; ++m) load_a_scales(0, m);
      load_b_scales(0);
    } else {
      load_scales(0, 0);
      take_next_scales();
    }
  }
};

// Stores --------------------------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t pack16(float low, float high, Dtype dtype) {
  std::uint32_t bits;
  if (dtype == Dtype::bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    bits = reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    bits = reinterpret_cast<const std::uint32_t&>(pair);
  }
  return bits;
}

// The column of accumulator `index` of a lane, within its wave.
template <Columns kColumns>
__device__ __forceinline__ int column_of_box(int lane, int index) {
  return kColumns == Columns::paired ? paired_column(accumulator_col(lane, index))
                                     : accumulator_col(lane, index);
}

// 16 rows by 64 columns of one warp, to 16 bits, through the copy engine.
template <Columns kColumns>
__device__ __forceinline__ void store_box16(const float* acc, std::uint32_t staging, int lane,
                                            const GemmMaps& maps, const GemmParams& params, int row,
                                            int col) {
  ptx::wait_stores_read();
  __syncwarp();
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = pack16(acc[8 * q + 2 * i], acc[8 * q + 2 * i + 1], params.d_dtype);
    }
    if constexpr (kColumns == Columns::paired) {
      const std::uint32_t to = staging + swizzle128(lane / 4, 2 * q + lane % 4 / 2) + lane % 2 * 8;
      ptx::store_shared(to, words[0], words[2]);
      ptx::store_shared(to + kAtomRows * kRowBytes, words[1], words[3]);
    } else {
      const int matrix = lane / 8;
      const int matrix_row = matrix % 2 * 8 + lane % 8;
      ptx::store_matrices(staging + swizzle128(matrix_row, 2 * q + matrix / 2), words);
    }
  }
  ptx::fence_shared_writes();
  __syncwarp();
  if (lane == 0) {
    ptx::store_box(&maps.d, staging, col, row);
    ptx::commit_stores();
  }
}

__device__ __forceinline__ void store_element(const GemmParams& params, int row, int col,
                                              float value) {
  const std::int64_t index = row * params.d_pitch + col;
  if (params.d_dtype == Dtype::f32) {
    float* to = static_cast<float*>(params.d) + index;
    *to = params.accumulate ? *to + value : value;
  } else if (params.d_dtype == Dtype::bf16) {
    __nv_bfloat16* to = static_cast<__nv_bfloat16*>(params.d) + index;
    *to = __float2bfloat16_rn(params.accumulate ? __bfloat162float(*to) + value : value);
  } else {
    static_cast<__half*>(params.d)[index] = __float2half_rn(value);
  }
}

// 16 rows by 32 columns of one warp as f32, through the copy engine or element by element. Values
// are stored singly: pairs would have to lie in neighbouring registers, and all operands of a
// promotion then in one half of the register file.
template <Columns kColumns>
__device__ __forceinline__ void store_box32(const float* acc, std::uint32_t staging, int lane,
                                            const GemmMaps& maps, const GemmParams& params, int row,
                                            int col) {
  ptx::wait_stores_read();
  __syncwarp();
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int box_col = column_of_box<kColumns>(lane, 4 * j + odd);
      const std::uint32_t to = staging + swizzle128(lane / 4, box_col / 4) + box_col % 4 * 4;
      ptx::store_shared(to, acc[4 * j + odd]);
      ptx::store_shared(to + kAtomRows * kRowBytes, acc[4 * j + odd + 2]);
    }
  }
  if (params.store == Store::elements) {
    __syncwarp();
#pragma unroll 2
    for (int i = 0; i < 16; ++i) {
      const float value = ptx::load_shared(staging + swizzle128(i, lane / 4) + lane % 4 * 4);
      if (row + i < params.m && col + lane < params.n) {
        store_element(params, row + i, col + lane, value);
      }
    }
    return;
  }
  ptx::fence_shared_writes();
  __syncwarp();
  if (lane == 0) {
    if (params.store == Store::add32) {
      ptx::add_box(&maps.d, staging, col, row);
    } else {
      ptx::store_box(&maps.d, staging, col, row);
    }
    ptx::commit_stores();
  }
}

template <class C>
__device__ __forceinline__ void store_tile(const Consumer<C>& consumer, const GemmMaps& maps,
                                           const GemmParams& params, TileIndex tile) {
  constexpr Sm90GemmConfig c = C::value;
  const int lane = lane_index();
  const int warp = warp_index();
  const int warpgroup = consumer_warpgroup();
  const std::uint32_t staging =
      consumer.base + offsetof(SharedStorage<C>, staging) + (warpgroup * 4 + warp) * kStagingBytes;
  const int row0 =
      tile.m * c.tile_m + warp * 16 + (consumers_split_m(c) ? warpgroup * consumer_rows(c) : 0);
  const int col0 = tile.n * c.tile_n + (consumers_split_m(c) ? 0 : warpgroup * consumer_cols(c));
#pragma unroll
  for (int wave = 0; wave < Consumer<C>::kWaves; ++wave) {
    const int row = row0 + wave / Consumer<C>::kWavesN * kWaveM;
    const int col = col0 + wave % Consumer<C>::kWavesN * kWaveN;
    if (params.store == Store::box16) {
#pragma unroll
      for (int chunk = 0; chunk < 2; ++chunk) {
        store_box16<c.columns>(&consumer.acc[wave][32 * chunk], staging, lane, maps, params, row,
                               col + 64 * chunk);
      }
    } else {
#pragma unroll
      for (int chunk = 0; chunk < 4; ++chunk) {
        store_box32<c.columns>(&consumer.acc[wave][16 * chunk], staging, lane, maps, params, row,
                               col + 32 * chunk);
      }
    }
  }
}

template <class C>
__device__ void multiply_tiles(std::uint32_t base, const GemmMaps& maps, const GemmParams& params) {
  Consumer<C> consumer(base);
  const int count = params.raster.count();
  if (static_cast<int>(blockIdx.x) < count) consumer.begin();
#pragma unroll 1
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    consumer.multiply(params, index + static_cast<int>(gridDim.x) < count);
    store_tile(consumer, maps, params, params.raster.tile(index));
  }
  ptx::wait_stores_done();
}

// The kernel ----------------------------------------------------------------------------------

template <class C>
__global__ __launch_bounds__(kThreads,
                             1) void gemm_kernel(const __grid_constant__ GemmMaps maps,
                                                 const __grid_constant__ GemmParams params) {
  using Storage = SharedStorage<C>;
  static_assert(follows_plan<C>(), "SharedStorage and shared_plan differ");
  static_assert(shared_bytes(C::value) <= kSharedLimit, "the stages do not fit");
  extern __shared__ std::uint8_t raw[];
  const std::uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u;

  // Barriers: a stage is full after one arrival and its bytes, empty after one arrival per warp.
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < C::value.stages; ++stage) {
      ptx::barrier_init(base + offsetof(Storage, full) + 8 * stage, 1);
      ptx::barrier_init(base + offsetof(Storage, empty) + 8 * stage, 4 * kConsumers);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::wait_for_earlier_kernels();

  // Roles
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) load_tiles<C>(base, maps, params);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<C>(base, maps, params);
  }
}

}  // namespace octet::sm90
