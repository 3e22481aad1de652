// rms_norm to FP8 on Hopper in one launch that reads x once from memory and once from the L2 cache.
//
// A tile of 128 rows needs their root mean squares before its first element can be cast. So blocks
// have one of two roles, in the order of their numbers: those of a band of 128 rows that find the root
// mean squares come `bands_ahead` bands before those that make its tiles, close enough that the rows
// are still in the cache, far enough that no tile has to wait for long. A block waits only for blocks
// with smaller numbers, which the device starts first. Sums are the tree of rms_norm.hpp, so the bits
// are those of the kernel without FP8.
#pragma once

#include "ops/fp8_output/cuda_sm90_patch.cuh"
#include "ops/rms_norm/cuda_sm90_rows.cuh"

namespace octet::sm90 {

inline constexpr int kQuantizeThreadsLog2 = 8;
static_assert(1 << kQuantizeThreadsLog2 == kQuantizeThreads);

// Per multiprocessor, as registers allow.
template <Dtype kDtype>
inline constexpr int kRmsNormTileBlocks = kDtype == Dtype::bf16 ? 3 : 2;

struct RmsNormTileParams {
  RmsNormForwardParams norm;  // y is not used; rstd is written
  QuantizeParams copies;
  unsigned* found;  // [bands]: blocks that have found their part of a band; zero before the launch
  int block_rows_log2;   // whose root mean squares a block finds
  unsigned finders;      // blocks per band that do
  unsigned bands_ahead;  // at most all
  bool aligned;          // rows are all of whole eights on 16-byte boundaries, as is g
};

// What a block does: a band's finders, then the tiles of the band `bands_ahead` before it.
struct RmsNormRole {
  bool finds;
  unsigned band;
  unsigned index;  // among the finders or tiles of the band

  __device__ RmsNormRole(const RmsNormTileParams& params, unsigned bands, unsigned tiles) {
    const unsigned first = params.bands_ahead * params.finders;
    if (blockIdx.x < first) {
      finds = true;
      band = blockIdx.x / params.finders;
      index = blockIdx.x % params.finders;
      return;
    }
    const unsigned step = params.finders + tiles;
    const unsigned mixed = (bands - params.bands_ahead) * step;
    const unsigned rest = blockIdx.x - first;
    if (rest < mixed) {
      const unsigned part = rest % step;
      finds = part < params.finders;
      band = rest / step + (finds ? params.bands_ahead : 0);
      index = finds ? part : part - params.finders;
      return;
    }
    finds = false;
    band = bands - params.bands_ahead + (rest - mixed) / tiles;
    index = (rest - mixed) % tiles;
  }
};

__device__ __forceinline__ void count_in(unsigned* found) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(found) : "memory");
}

__device__ __forceinline__ void wait_for_all(const unsigned* found, unsigned count) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(found) : "memory");
  } while (now < count);
}

inline constexpr int kFinderVectors = 8;  // of a thread

// Leaves the sums of squares of a thread's vectors, all under way at once.
template <Dtype kDtype>
__device__ __forceinline__ void leave_squares(const RmsNormForwardParams& norm, std::int64_t row,
                                              const RowThreads& threads, float* sums) {
  Eight<kDtype> h[kFinderVectors];
  float eights[kFinderVectors];
#pragma unroll
  for (int v = 0; v < kFinderVectors; ++v) {
    h[v] = {};
    if (row < norm.rows && threads.col(v) < norm.cols) {
      h[v] = load_normed<kDtype, Rows::whole>(norm, row, threads.col(v));
    }
  }
#pragma unroll
  for (int v = 0; v < kFinderVectors; ++v) {
    eights[v] = sum_of_squares(h[v]);
    if (norm.residual.data != nullptr && row < norm.rows && threads.col(v) < norm.cols) {
      store_row<Rows::whole>(norm.sum, row, threads.col(v), norm.cols, h[v]);
    }
  }
  leave_sums(eights, threads, sums);
}

// The same where rows are not all of whole, aligned eights: one after the other.
template <Dtype kDtype>
__device__ __forceinline__ void leave_ragged_squares(const RmsNormForwardParams& norm,
                                                     std::int64_t row, const RowThreads& threads,
                                                     float* sums) {
#pragma unroll 1
  for (int v = 0; v < kFinderVectors; ++v) {
    float sum = 0;
    if (row < norm.rows && threads.col(v) < norm.cols) {
      const auto h = load_normed<kDtype, Rows::ragged>(norm, row, threads.col(v));
      sum = sum_of_squares(h);
      if (norm.residual.data != nullptr) {
        store_row<Rows::ragged>(norm.sum, row, threads.col(v), norm.cols, h);
      }
    }
    sum = sum_of_lanes(sum);
    if (threadIdx.x % 32 == 0) sums[v * threads.warps() + threads.index / 32] = sum;
  }
}

// Root mean squares of `block_rows` rows, each by as many threads as there are then for one.
template <Dtype kDtype>
__device__ __forceinline__ void find_root_mean_squares(const RmsNormTileParams& params,
                                                       const RmsNormRole& role, float* shared) {
  const RmsNormForwardParams& norm = params.norm;
  const RowThreads threads(kQuantizeThreadsLog2 - params.block_rows_log2);
  const std::int64_t row =
      std::int64_t{role.band} * kTile + (role.index << params.block_rows_log2) + threads.row;
  float* sums = shared + threads.row * threads.warps() * kFinderVectors;
  if (params.aligned) {
    leave_squares<kDtype>(norm, row, threads, sums);
  } else {
    leave_ragged_squares<kDtype>(norm, row, threads, sums);
  }
  __syncthreads();
  const float sum = sum_of_warps(sums, threads.warps() * kFinderVectors);
  if (row < norm.rows && threads.index == 0) norm.rstd[row] = rstd_of(sum, norm.cols, norm.eps);
  __syncthreads();
  if (threadIdx.x == 0) count_in(params.found + role.band);
}

template <Dtype kDtype, bool kE5m2>
__device__ __forceinline__ void make_tile(const RmsNormTileParams& params, const PatchPlace& place,
                                          QuantizeStorage& shared) {
  const RmsNormForwardParams& norm = params.norm;
  const Matrix& h = norm.residual.data != nullptr ? norm.sum : norm.x;
  const bool whole = params.aligned && is_inside(params.copies, place);
  if (threadIdx.x == 0) {
    wait_for_all(params.found + place.tile_row, params.finders);
  }
  __syncthreads();

  // Read
  Patch<typename InputOf<kDtype>::Type> patch;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    set_row<kDtype>(
        patch, i,
        load_patch_row<kDtype>(h, place.row0() + i, place.col0(), norm.rows, norm.cols, whole));
  }

  // Norm; rows that are not there have zeros, whatever their root mean square would be
  const auto col0 = static_cast<int>(place.col0());
  float w[kEight] = {};
  if (whole) {
    load_gains<Rows::whole>(norm.g, norm.one_plus_weight, col0, norm.cols, w);
  } else if (col0 < norm.cols) {
    load_gains<Rows::ragged>(norm.g, norm.one_plus_weight, col0, norm.cols, w);
  }
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const std::int64_t row = place.row0() + i;
    const float rstd = whole || row < norm.rows ? __ldcg(norm.rstd + row) : 0.0f;
    set_row<kDtype>(patch, i, normed(get_row<kDtype>(patch, i), rstd, w));
  }
  quantize_patch<kE5m2>(shared, params.copies, patch, place);
}

template <Dtype kDtype, bool kE5m2>
__global__
__launch_bounds__(kQuantizeThreads, kRmsNormTileBlocks<kDtype>) void rms_norm_tile_kernel(
    const __grid_constant__ RmsNormTileParams params) {
  __shared__ QuantizeStorage shared;
  const RmsNormRole role(params, static_cast<unsigned>((params.norm.rows + kTile - 1) / kTile),
                         static_cast<unsigned>(params.copies.tiles_across));
  ptx::wait_for_earlier_kernels();
  if (role.finds) {
    find_root_mean_squares<kDtype>(params, role, shared.row_scale);
  } else {
    make_tile<kDtype, kE5m2>(params, PatchPlace(role.band, role.index), shared);
  }
}

}  // namespace octet::sm90
