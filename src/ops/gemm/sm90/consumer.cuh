// A consumer warpgroup of the Hopper product: its registers, and the steps of its main loop.
#pragma once

#include "device/mma/layout.hpp"
#include "device/ptx/barrier.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/wgmma_n256.cuh"
#include "ops/gemm/sm90/group_tiles.cuh"

namespace octet::sm90 {

// A value that ptxas cannot recompute from its source, which keeps address arithmetic out of the main loop.
// `opaque` is for values that are uniform in a warp, `opaque_of_lane` for values that differ by lane.
template <class T>
__device__ __forceinline__ T opaque(T value) {
  return __shfl_sync(~0u, value, 0);
}
template <class T>
__device__ __forceinline__ T opaque_of_lane(T value) {
  return __shfl_sync(~0u, value, threadIdx.x);
}

// Read where they are used, so that the main loop holds no register for them.
using ptx::lane_index;
__device__ __forceinline__ int warp_index() { return threadIdx.x / 32 % 4; }  // of the warpgroup
__device__ __forceinline__ int consumer_warpgroup() { return threadIdx.x / 128 - 1; }

// Where a consumer's part of a tile begins.
template <class C>
__device__ __forceinline__ int consumer_row(int warpgroup) {
  return consumers_split_m(C::value) ? warpgroup * consumer_rows(C::value) : 0;
}
template <class C>
__device__ __forceinline__ int consumer_col(int warpgroup) {
  return consumers_split_n(C::value) ? warpgroup * consumer_cols(C::value) : 0;
}

template <class C>
struct Consumer {
  static constexpr Sm90GemmConfig c = C::value;
  static constexpr bool kOneByOne = c.promotion == Promotion::one_by_one;
  static constexpr bool kSliceScales = has_slice_scales(c);
  static constexpr int kWavesM = waves_m(c);
  static constexpr int kWavesN = waves_n(c);
  static constexpr int kWaves = kWavesM * kWavesN;
  static constexpr int kValues = kWaveM * wave_n(c) / 128;  // of a wave, per thread
  // Blocks of b's scales that the consumer's columns touch.
  static constexpr int kScaleBlocks = crosses_scale_blocks(c) ? 2 : kWavesN;
  // Neighbouring columns of d that a thread holds; one vector load fetches their scales of b.
  static constexpr int kColumnsAtOnce = c.columns == Columns::paired ? 4 : 2;
  using Storage = SharedStorage<C>;
  static_assert(!kOneByOne || kWavesN == 1, "scales of b are held for one wave of columns");
  static_assert(
      !crosses_scale_blocks(c) || c.tile_n == kScaleBlock + scale_segment(c),
      "wherever a tile lies, it touches two blocks of scales, the second with its last segment");

  std::uint32_t base;
  std::uint32_t a_low;
  std::uint32_t b_low;
  std::uint32_t a_scale_address;
  std::uint32_t b_scale_address;
  std::uint32_t empty_address;  // clusters: of the block in which this lane releases stages
  // Unrolled stages: a parity bit per stage, and one of `stored`, whose first wait returns at once.
  static constexpr std::uint32_t kStoredPhase = 1u << 31;
  std::uint32_t phases = 0;
  int ring_stage = 0;  // rolled stages: the current one, and its parity
  std::uint32_t ring_parity = 0;
  float acc[kWaves][kValues];  // (wave, n/8*4), f32, over the whole contraction
  float scale[kOneByOne ? 1 : kScaleBlocks][kWavesM][2];  // sa * sb, or sa, of the current stage
  float next[kOneByOne ? 1 : kScaleBlocks][kWavesM][2];
  int crossing;  // where a wave crosses into the second block of scales: the first column there
  float b_scale[kOneByOne ? kValues / 2 : 1];  // (n/8*2) of the current stage

  __device__ __forceinline__ explicit Consumer(std::uint32_t base_) : base(opaque(base_)) {
    const int warpgroup = opaque(consumer_warpgroup());
    const int lane = lane_index();
    const int warp = warp_index();
    const int row = consumer_row<C>(warpgroup);
    const int col = consumer_col<C>(warpgroup);
    a_low = opaque(operand_low<c.a_major>(base + offsetof(Storage, a) + row * kSliceBytes));
    b_low = opaque(operand_low<c.b_major>(base + offsetof(Storage, b) + col * kSliceBytes));
    a_scale_address = base + offsetof(Storage, a_scales) + (row + warp * 16 + lane / 4) * 4;
    b_scale_address = base + offsetof(Storage, b_scales) +
                      (kOneByOne ? (col + lane % 4 * kColumnsAtOnce) * 4 : col / kScaleBlock * 16);
    if constexpr (c.cluster > 1) {
      empty_address =
          opaque_of_lane(ptx::in_block(base + offsetof(Storage, empty), lane % c.cluster));
    }
    // Recomputing it would stall every stage. With columns in order there is no register left to keep it.
    if constexpr (c.columns == Columns::paired) b_scale_address = opaque_of_lane(b_scale_address);
  }

  // The low word of an operand's descriptor, and its distance from one wgmma step to the next.
  template <Major kMajor>
  static __device__ __forceinline__ std::uint32_t operand_low(std::uint32_t address) {
    return kMajor == Major::k ? descriptor_low(address)
                              : descriptor_low_mn(address, slice_elements(c));
  }
  static constexpr int step_of(Major major) {
    return (major == Major::k ? kSliceBytes / 4 : kStepMnBytes) / 16;
  }

  __device__ __forceinline__ void wait_full(int stage, std::uint32_t parity) {
    ptx::barrier_wait(Storage::full_at(base, stage), parity);
  }

  __device__ __forceinline__ void release(int stage) {
    if constexpr (c.cluster > 1) {
      if (lane_index() < c.cluster) ptx::barrier_arrive_in_block(empty_address + 8 * stage);
    } else {
      if (ptx::elect_lane()) ptx::barrier_arrive(Storage::empty_at(base, stage));
    }
  }

  // sa * sb of the next stage, where a wave's columns share one scale of b.
  __device__ __forceinline__ void load_scales(int stage, int slice) {
    std::uint32_t a_at = a_scale_address + stage * sizeof(Storage::a_scales[0]);
    std::uint32_t b_at = b_scale_address + stage * sizeof(Storage::b_scales[0]);
    // Four slices of scales of b were loaded, from a multiple of four on.
    if constexpr (kGroups<C> != Groups::contraction) b_at += (slice & 3) * 4;
    if constexpr (kHasShift<C>) {
      const std::uint32_t shift = ptx::load_shared_word(Storage::shift_at(base, stage));
      (kGroups<C> == Groups::rows ? a_at : b_at) += shift;
    }
#pragma unroll
    for (int m = 0; m < kWavesM; ++m) {
      const float upper = ptx::load_shared(a_at + m * kWaveM * 4);
      const float lower = ptx::load_shared(a_at + m * kWaveM * 4 + 32);
#pragma unroll
      for (int n = 0; n < kScaleBlocks; ++n) {
        const float b = ptx::load_shared(b_at + n * 16);
        next[n][m][0] = __fmul_rn(upper, b);
        next[n][m][1] = __fmul_rn(lower, b);
      }
    }
  }

  // The scales of a wave's rows, where each column has its own scale of b.
  __device__ __forceinline__ void load_a_scales(int stage, int m) {
    const std::uint32_t from = a_scale_address + stage * sizeof(Storage::a_scales[0]);
    scale[0][m][0] = ptx::load_shared(from + m * kWaveM * 4);
    scale[0][m][1] = ptx::load_shared(from + m * kWaveM * 4 + 32);
  }

  __device__ __forceinline__ void load_b_scales(int stage) {
    const std::uint32_t from = b_scale_address + stage * sizeof(Storage::b_scales[0]);
#pragma unroll
    for (int i = 0; i < kValues / 2; i += kColumnsAtOnce) {
      if constexpr (kColumnsAtOnce == 4) {
        ptx::load_shared(from + i * 16, b_scale[i], b_scale[i + 1], b_scale[i + 2], b_scale[i + 3]);
      } else {
        ptx::load_shared(from + i * 16, b_scale[i], b_scale[i + 1]);
      }
    }
  }

  __device__ __forceinline__ void take_next_scales() {
    if constexpr (kSliceScales) {
#pragma unroll
      for (int n = 0; n < kScaleBlocks; ++n) {
#pragma unroll
        for (int m = 0; m < kWavesM; ++m) {
          scale[n][m][0] = next[n][m][0];
          scale[n][m][1] = next[n][m][1];
        }
      }
    }
  }

  __device__ __forceinline__ void issue(float (&slice)[kValues], int stage, int wave_m,
                                        int wave_col) {
    ptx::pin(slice);
    ptx::wgmma_fence();
    issue_steps(stage, wave_m, wave_col, 0, slice);
  }

  // The four steps of a stage, added to what `sums` have if `keep`: one array, or two of m64n256.
  template <class... Sums>
  __device__ __forceinline__ void issue_steps(int stage, int wave_m, int wave_col, int keep,
                                              Sums&... sums) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t a_at = a_low + stage * (c.tile_m * kSliceBytes / 16) +
                                 wave_m * (kWaveM * kSliceBytes / 16) + step_of(c.a_major) * k;
      const std::uint32_t b_at = b_low + stage * (c.tile_n * kSliceBytes / 16) +
                                 wave_col * (wave_n(c) * kSliceBytes / 16) + step_of(c.b_major) * k;
      const std::uint64_t a = ptx::join64(a_at, kDescriptorHigh);
      const std::uint64_t b = ptx::join64(b_at, kDescriptorHigh);
      if constexpr (is_fp8(c.a)) {
        ptx::wgmma<c.a, c.b>(sums..., a, b, k == 0 ? keep : 1);
      } else {
        ptx::wgmma16<c.a, static_cast<ptx::Major>(c.a_major), static_cast<ptx::Major>(c.b_major)>(
            sums..., a, b, k == 0 ? keep : 1);
      }
    }
    ptx::wgmma_commit();
  }

  // All waves of a stage, added to the accumulators if `keep`. They are this many batches of products.
  static constexpr int kBatches = joins_waves(c) ? 1 : kWaves;
  __device__ __forceinline__ void issue_stage(int stage, int keep) {
    ptx::wgmma_fence();
    if constexpr (joins_waves(c)) {
      issue_steps(stage, 0, 0, keep, acc[0], acc[1]);
    } else {
#pragma unroll
      for (int wave = 0; wave < kWaves; ++wave) {
        issue_steps(stage, wave / kWavesN, wave % kWavesN, keep, acc[wave]);
      }
    }
  }

  // The scale of a column in a wave that crosses blocks of scales. The first segment lies in the first block and
  // the last in the second, whatever the tile; those between are chosen.
  __device__ __forceinline__ float crossing_scale(int col, int half) const {
    constexpr int kSegment = scale_segment(c);
    const int segment = col / kSegment * kSegment;
    if (segment == 0) return scale[0][0][half];
    if (segment == wave_n(c) - kSegment) return scale[kScaleBlocks - 1][0][half];
    return segment < crossing ? scale[0][0][half] : scale[kScaleBlocks - 1][0][half];
  }

  // Adds a finished slice to the wave's accumulators.
  __device__ __forceinline__ void promote(const float (&slice)[kValues], int wave) {
    if constexpr (c.promotion == Promotion::sum) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) acc[wave][i] = __fadd_rn(slice[i], acc[wave][i]);
    } else if constexpr (crosses_scale_blocks(c)) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        acc[wave][i] = fmaf(slice[i], crossing_scale(i / 4 * 8, i % 4 / 2), acc[wave][i]);
      }
    } else {
      const float upper = scale[kOneByOne ? 0 : wave % kWavesN][wave / kWavesN][0];
      const float lower = scale[kOneByOne ? 0 : wave % kWavesN][wave / kWavesN][1];
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        const float row_scale = i % 4 < 2 ? upper : lower;
        if constexpr (kOneByOne) {
          const float col_scale = b_scale[i / 4 * 2 + i % 2];
          acc[wave][i] = fmaf(__fmul_rn(slice[i], row_scale), col_scale, acc[wave][i]);
        } else {
          acc[wave][i] = fmaf(slice[i], row_scale, acc[wave][i]);
        }
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) acc[wave][i] = 0;
    }
  }

  // Waits for a stage whose number is a compile-time constant, and loads its scales.
  __device__ __forceinline__ void await_unrolled(int stage) {
    wait_full(stage, phases >> stage & 1);
    phases ^= 1u << stage;
  }
  __device__ __forceinline__ void await_unrolled(int stage, int slice) {
    await_unrolled(stage);
    if constexpr (kSliceScales) load_scales(stage, slice);
  }

  // Waits for the ring's first stage, before the first tile. Without promotion a stage is waited for where it is
  // multiplied, under the products of the one before, and a tile's first where the tile begins.
  __device__ __forceinline__ void begin() {
    phases = is_staged(c) ? kStoredPhase : 0;
    if constexpr (c.promotion == Promotion::none) return;
    wait_full(0, 0);
    phases |= 1;
    if constexpr (kOneByOne) {
#pragma unroll
      for (int m = 0; m < kWavesM; ++m) load_a_scales(0, m);
      load_b_scales(0);
    } else if constexpr (kSliceScales) {
      load_scales(0, 0);
      take_next_scales();
    }
  }
};

}  // namespace octet::sm90
