// rms_norm to FP8 on Hopper in one launch that reads x once from memory and once from the L2 cache.
//
// A tile of 128 rows needs their root mean squares before its first element can be cast. So blocks
// have one of two roles, in the order of their numbers: those of a band of 128 rows that find the
// root mean squares come `bands_ahead` bands before those that make its tiles, close enough that
// the rows are still in the cache, far enough that no tile has to wait for long. A block waits only
// for blocks with smaller numbers, which the device starts first. What is waited for is rstd
// itself, of which no number is there before the launch (kNotFound). Sums are the tree of
// rms_norm.hpp, so the bits are those of the kernel without FP8.
#pragma once

#include "ops/quantize/cuda_sm90_copies.cuh"
#include "ops/rms_norm/cuda_sm90_forward.cuh"
#include "ops/rms_norm/cuda_sm90_tile_roles.hpp"

namespace octet::sm90 {

inline constexpr int kQuantizeThreadsLog2 = 8;
static_assert(1 << kQuantizeThreadsLog2 == kQuantizeThreads);

// Per multiprocessor, as registers allow.
template <Dtype kDtype>
inline constexpr int kRmsNormTileBlocks = kDtype == Dtype::bf16 ? 3 : 2;

struct RmsNormTileParams {
  RmsNormForwardParams norm;  // y is not used; rstd is written, kNotFound before the launch
  QuantizeParams copies;
  RmsNormBlocks blocks;
  int block_rows_log2;  // whose root mean squares a finder finds
  bool aligned;         // rows are all of whole eights on 16-byte boundaries, as is g
  bool full_finders;    // and each thread has as many as it can, of x alone
};

// The bits of an rstd that is not there yet: a NaN that no operation gives.
inline constexpr std::uint32_t kNotFound = 0xFFFFFFFF;

__device__ __forceinline__ void publish(float* rstd, float value) {
  if (isnan(value)) value = __int_as_float(0x7FFFFFFF);
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(rstd), "f"(value) : "memory");
}
__device__ __forceinline__ float look_at(const float* rstd) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(rstd) : "memory");
  return value;
}
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

inline constexpr int kFinderVectors = 8;  // of a thread

// Leaves the sums of squares of a thread's vectors, all under way at once. kFull: it has all of
// them, and there is no residual.
template <bool kFull, Dtype kDtype>
__device__ __forceinline__ void leave_squares(const RmsNormForwardParams& norm, unsigned row,
                                              int cols, const RowThreads& threads, float* sums) {
  Eight<kDtype> h[kFinderVectors];
  if constexpr (kFull) {
    const char* from = element_at<kDtype>(norm.x, row, threads.col(0));
    const std::int64_t step = kEight * kElementBytes<kDtype> << threads.log2;
#pragma unroll
    for (int v = 0; v < kFinderVectors; ++v) {
      h[v] = load_eight_evict_last<kDtype>(from);
      from += step;
    }
  } else {
    load_normed<Rows::whole>(norm, row, cols, threads, h);
  }
  float eights[kFinderVectors];
#pragma unroll
  for (int v = 0; v < kFinderVectors; ++v) eights[v] = sum_of_squares(h[v]);
  leave_sums<kFinderVectors>(eights, threads, sums);
}

// The same where rows are not all of whole, aligned eights: one after the other.
template <Dtype kDtype>
__device__ __forceinline__ void leave_ragged_squares(const RmsNormForwardParams& norm, unsigned row,
                                                     int cols, RowThreads threads, float* sums) {
  const int warps = threads.warps();
  const int warp = threads.index / 32;
#pragma unroll 1
  for (int v = 0; v < kFinderVectors; ++v) {
    Eight<kDtype> h[1];
    load_normed<Rows::ragged>(norm, row, cols, threads, h);
    const float sum = sum_of_lanes(sum_of_squares(h[0]));
    if (threadIdx.x % 32 == 0) sums[v * warps + warp] = sum;
    threads.index += 1 << threads.log2;
  }
}

// Root mean squares of `block_rows` rows, each by as many threads as there are then for one.
template <Dtype kDtype>
__device__ __forceinline__ void find_root_mean_squares(const RmsNormTileParams& params,
                                                       const RmsNormRole& role, float* shared) {
  const RmsNormForwardParams& norm = params.norm;
  const RowThreads threads(kQuantizeThreadsLog2 - params.block_rows_log2);
  const unsigned row = role.band * kTile + (role.index << params.block_rows_log2) + threads.row;
  float* sums = shared + threads.row * threads.warps() * kFinderVectors;
  const bool valid = row < norm.rows;
  const unsigned own_row = valid ? row : 0;
  const int cols = valid ? norm.cols : 0;
  if (params.full_finders && role.band * kTile + kTile <= norm.rows) {
    leave_squares<true, kDtype>(norm, row, norm.cols, threads, sums);
  } else if (params.aligned) {
    leave_squares<false, kDtype>(norm, own_row, cols, threads, sums);
  } else {
    leave_ragged_squares<kDtype>(norm, own_row, cols, threads, sums);
  }
  __syncthreads();
  const float sum = sum_of_warps(sums, threads.warps() * kFinderVectors);
  if (!valid || threads.index != 0) return;
  if (norm.residual.data != nullptr) fence_gpu();  // the block's part of `sum` is there first
  publish(norm.rstd + row, rstd_of(sum, norm.cols, norm.eps));
}

// The rstd of a patch's rows once all of its warp's have been found, zeros for rows that are not
// there. Each of the warp's 16 rows is read once. No rstd but kNotFound has a sign.
__device__ __forceinline__ void wait_for_rstd(const RmsNormForwardParams& norm,
                                              const PatchPlace& place, float (&rstd)[kPatch]) {
  const std::int64_t row = place.tile_row0() + threadIdx.x / 32 * 16 + threadIdx.x % 16;
  float own = 0;
  do {
    if (row < norm.rows) own = look_at(norm.rstd + row);
  } while (__any_sync(~0u, signbit(own)));
#pragma unroll
  for (int i = 0; i < kPatch; ++i) rstd[i] = __shfl_sync(~0u, own, place.ty % 2 * kPatch + i);
}

template <Dtype kDtype, bool kE5m2>
__device__ __forceinline__ void make_tile(const RmsNormTileParams& params, const PatchPlace& place,
                                          QuantizeStorage& shared) {
  const RmsNormForwardParams& norm = params.norm;
  const bool has_sum = norm.residual.data != nullptr;  // which the finders write
  const TileSource source{has_sum ? norm.sum : norm.x, norm.rows, norm.cols, params.aligned,
                          is_inside(params.copies, place)};
  const auto col0 = static_cast<int>(place.col0());

  // Read
  Patch<kDtype> patch;
  float rstd[kPatch];
  if (has_sum) {
    wait_for_rstd(norm, place, rstd);
    fence_gpu();
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

    // Norm; rows that are not there have zeros
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
  if (role.finds) {
    find_root_mean_squares<kDtype>(params, role, shared.row_scale);
  } else {
    make_tile<kDtype, kE5m2>(params, PatchPlace(role.band, role.index), shared);
  }
}

}  // namespace octet::sm90
