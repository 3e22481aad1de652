// rms_norm to FP8 on Hopper in one launch that reads x once from memory and once from the L2 cache.
// A tile of 128 rows needs the rstd (1 / root mean square) of all its rows before its first element
// can be cast. So blocks have one of two roles, by their number: the blocks that compute the rstd
// of a band of 128 rows come `bands_ahead` bands before the blocks that cast its tiles. That is
// close enough that the rows are still in the L2 cache, and far enough that tiles hardly wait. A
// block waits only for blocks with smaller numbers, which the device starts first. It polls rstd
// itself, which is kNotReady before the launch. Sums are the tree of rms_norm.hpp, so the bits
// equal those of the kernel without FP8.
#pragma once

#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/rms_norm/cuda_sm90_forward.cuh"
#include "ops/rms_norm/cuda_sm90_tile_roles.hpp"

namespace octet::sm90 {

inline constexpr int kQuantizeThreadsLog2 = 8;
static_assert(1 << kQuantizeThreadsLog2 == kQuantizeThreads);

// Blocks per multiprocessor that registers allow.
template <Dtype kDtype>
inline constexpr int kRmsNormTileBlocks = kDtype == Dtype::bf16 ? 3 : 2;

struct RmsNormTileParams {
  RmsNormForwardParams norm;  // y is not used; rstd is kNotReady before the launch
  QuantizeParams copies;
  RmsNormBlocks blocks;
  int block_rows_log2;    // rows of an rstd block
  bool aligned;           // rows and g start on 16-byte boundaries, cols is a multiple of eight
  bool full_rstd_blocks;  // aligned, kRstdVectors whole vectors per thread, no residual
};

// The bits of an rstd that is not computed yet: a NaN with a sign, which publish_rstd() never
// stores.
inline constexpr std::uint32_t kNotReady = 0xFFFFFFFF;

__device__ __forceinline__ void publish_rstd(float* to, float rstd) {
  if (isnan(rstd)) rstd = __int_as_float(0x7FFFFFFF);
  ptx::store_relaxed(to, rstd);
}

inline constexpr int kRstdVectors = 8;  // of a thread

// Stores the sums of squares over each warp. All loads of a thread are in flight at once. kFull:
// see full_rstd_blocks.
template <bool kFull, Dtype kDtype>
__device__ __forceinline__ void store_square_sums(const RmsNormForwardParams& norm, unsigned row,
                                                  int cols, const RowThreads& threads,
                                                  float* sums) {
  Eight<kDtype> h[kRstdVectors];
  if constexpr (kFull) {
    const char* from = element_at<kDtype>(norm.x, row, threads.col(0));
    const std::int64_t step = std::int64_t{kEight * kElementBytes<kDtype>} * threads.count;
#pragma unroll
    for (int v = 0; v < kRstdVectors; ++v) {
      h[v] = load_eight_evict_last<kDtype>(from);
      from += step;
    }
  } else {
    load_h<Rows::whole>(norm, row, cols, threads, h);
  }
  float vector_sums[kRstdVectors];
#pragma unroll
  for (int v = 0; v < kRstdVectors; ++v) vector_sums[v] = sum_of_squares(h[v]);
  store_warp_sums<kRstdVectors>(vector_sums, threads, sums);
}

// The same for ragged rows: one vector after the other.
template <Dtype kDtype>
__device__ __forceinline__ void store_ragged_square_sums(const RmsNormForwardParams& norm,
                                                         unsigned row, int cols, RowThreads threads,
                                                         float* sums) {
  const int warps = threads.warps();
  const int warp = threads.index / 32;
#pragma unroll 1
  for (int v = 0; v < kRstdVectors; ++v) {
    Eight<kDtype> h[1];
    load_h<Rows::ragged>(norm, row, cols, threads, h);
    const float sum = sum_of_lanes(sum_of_squares(h[0]));
    if (threadIdx.x % 32 == 0) sums[v * warps + warp] = sum;
    threads.index += threads.count;
  }
}

// Role 1: the rstd of a few rows of a band. The threads of the block are divided evenly between the
// rows.
template <Dtype kDtype>
__device__ __forceinline__ void compute_rstd(const RmsNormTileParams& params,
                                             const RmsNormRole& role, float* shared) {
  const RmsNormForwardParams& norm = params.norm;
  const RowThreads threads = RowThreads::of_log2(kQuantizeThreadsLog2 - params.block_rows_log2);
  const unsigned row = role.band * kTile + (role.index << params.block_rows_log2) + threads.row;
  float* sums = shared + threads.row * threads.warps() * kRstdVectors;
  const bool valid = row < norm.rows;
  const unsigned own_row = valid ? row : 0;
  const int cols = valid ? norm.cols : 0;
  if (params.full_rstd_blocks && role.band * kTile + kTile <= norm.rows) {
    store_square_sums<true, kDtype>(norm, row, norm.cols, threads, sums);
  } else if (params.aligned) {
    store_square_sums<false, kDtype>(norm, own_row, cols, threads, sums);
  } else {
    store_ragged_square_sums<kDtype>(norm, own_row, cols, threads, sums);
  }
  __syncthreads();
  const float sum = sum_of_warps(sums, threads.warps() * kRstdVectors);
  if (!valid || threads.index != 0) return;
  if (norm.residual.data != nullptr) ptx::fence_gpu();  // `sum` is visible before rstd
  publish_rstd(norm.rstd + row, rstd_of(sum, norm.cols, norm.eps));
}

// Waits until the rstd of all 16 rows of a warp are ready, and returns those of the rows of a
// thread's patch; zero for rows beyond the matrix. Only kNotReady has a sign.
__device__ __forceinline__ void wait_for_rstd(const RmsNormForwardParams& norm,
                                              const PatchPlace& place, float (&rstd)[kPatch]) {
  const std::int64_t row = place.tile_row0() + threadIdx.x / 32 * 16 + threadIdx.x % 16;
  float own = 0;
  do {
    if (row < norm.rows) own = ptx::load_relaxed(norm.rstd + row);
  } while (__any_sync(~0u, signbit(own)));
#pragma unroll
  for (int i = 0; i < kPatch; ++i) rstd[i] = __shfl_sync(~0u, own, place.ty % 2 * kPatch + i);
}

// Role 2: a tile of the FP8 copies.
template <Dtype kDtype, bool kE5m2>
__device__ __forceinline__ void cast_tile(const RmsNormTileParams& params, const PatchPlace& place,
                                          QuantizeStorage& shared) {
  const RmsNormForwardParams& norm = params.norm;
  const bool has_sum = norm.residual.data != nullptr;  // written by the rstd blocks
  const TileSource source{has_sum ? norm.sum : norm.x, norm.rows, norm.cols, params.aligned,
                          is_inside(params.copies, place)};
  const auto col0 = static_cast<int>(place.col0());

  // Read
  Patch<kDtype> patch;
  float rstd[kPatch];
  if (has_sum) {
    wait_for_rstd(norm, place, rstd);
    ptx::fence_gpu();
    __syncwarp();
  }
  load_patch(patch, source, place);
  float w[kEight] = {};
  if (source.whole()) {
    load_gains<Rows::whole>(norm.g, norm.one_plus_weight, col0, norm.cols, w);
  } else if (col0 < norm.cols) {
    load_gains<Rows::ragged>(norm.g, norm.one_plus_weight, col0, norm.cols, w);
  }
  if (!has_sum) wait_for_rstd(norm, place, rstd);

    // Norm; rows beyond the matrix have zeros
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    patch.rows[i] = normed(patch.rows[i], rstd[i], w);
  }
  quantize_patch<kE5m2, L2Hint::evict_first>(shared, params.copies, patch, place);
}

template <Dtype kDtype, bool kE5m2>
__global__
__launch_bounds__(kQuantizeThreads, kRmsNormTileBlocks<kDtype>) void rms_norm_tile_kernel(
    const __grid_constant__ RmsNormTileParams params) {
  __shared__ QuantizeStorage shared;
  const RmsNormRole role = role_of(params.blocks, blockIdx.x);
  if (role.idle) return;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (role.computes_rstd) {
    compute_rstd<kDtype>(params, role, shared.row_scale);
  } else {
    cast_tile<kDtype, kE5m2>(params, PatchPlace(role.band, role.index), shared);
  }
}

}  // namespace octet::sm90
