// rms_norm backward on Hopper. The grid is as large as fits the device, and each of its n blocks
// takes every n-th row, so that dg accumulates in registers. Each block writes one line of partial
// sums of dg, which device/rows/partial_sums adds in a fixed order. The first warp has rows copied
// into a ring in shared memory; ragged rows are read from global memory at each use.
//
// A row takes two steps, the sum of dy * w * h and then its gradients, with a barrier in between.
// Between two barriers a block takes step 1 of one row and step 2 of the row before it, so that both
// the barrier and the sums over warps have other work beside them.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/rows/row_ring.cuh"
#include "ops/rms_norm/cuda_sm90_row.cuh"

namespace octet::sm90 {

struct RmsNormBackwardParams {
  Matrix operands[3];  // [rows, cols]: dy, h, and dsum if there is one
  bool has_dsum;
  bool dsum_in_ring;  // or it is read from global memory, if the ring has no room for it
  Weights g;          // [cols]
  const float* rstd;  // [rows]
  Matrix dx;          // [rows, cols]
  Matrix dresidual;   // [rows, cols], or null data
  float* partials;    // [blocks, cols]: dg over the rows of each block
  unsigned rows;
  int cols;
  int stages;  // of the ring
  bool one_plus_weight;
};

enum RmsNormOperand { kOperandDy, kOperandH, kOperandDsum };

// Rows of a ring: one in step 1, one in step 2, the others in flight.
inline constexpr int kRmsNormLeastStages = 3;

// Loads a row into a stage of the ring, if there is such a row. The first warp calls it, once all
// threads are done with the row that the stage had before.
template <Dtype kDtype>
__device__ __forceinline__ void load_stage(const RmsNormBackwardParams& params, const RowRing& ring,
                                           int stage, unsigned row) {
  if (row < params.rows && ptx::elect_lane()) {
    ring.template fill<kElementBytes<kDtype>>(stage, row);
  }
}

// A thread's part of one row of the operands, in the ring or in global memory.
template <Dtype kDtype, Rows kRows>
struct GradientRow {
  const RmsNormBackwardParams& params;
  const RowRing& ring;
  const RowThreads& threads;
  int stage;
  unsigned row;

  __device__ __forceinline__ bool has(int vector) const {
    return threads.col(vector) < params.cols;
  }
  __device__ __forceinline__ Eight<kDtype> load(RmsNormOperand operand, int vector) const {
    const int col = threads.col(vector);
    if (kRows == Rows::whole && (operand != kOperandDsum || params.dsum_in_ring)) {
      return load_shared_eight<kDtype>(ring.row_address(stage, operand) +
                                       static_cast<std::uint32_t>(col) * kElementBytes<kDtype>);
    } else {
      return load_row<kDtype, kRows>(params.operands[operand], row, col, params.cols);
    }
  }
};

// Step 1: sums dy * w * h over each vector of a thread.
template <Dtype kDtype, Rows kRows, int kVectors>
__device__ __forceinline__ void sum_products(const GradientRow<kDtype, kRows>& data,
                                             const float (&w)[kVectors][kEight],
                                             float (&vector_sums)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (!data.has(v)) continue;
    const Eight<kDtype> dy = data.load(kOperandDy, v);
    const Eight<kDtype> h = data.load(kOperandH, v);
    float terms[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) terms[i] = __fmul_rn(__fmul_rn(dy[i], w[v][i]), h[i]);
    vector_sums[v] = sum_of_eight(terms);
  }
}

// Step 2: writes dx of a row, whose sum of dy * w * h is `total`, and adds its part to dg.
template <Dtype kDtype, Rows kRows, int kVectors>
__device__ __forceinline__ void write_gradients(const GradientRow<kDtype, kRows>& data, float rstd,
                                                float total, const float (&w)[kVectors][kEight],
                                                float (&dg)[kVectors][kEight]) {
  const RmsNormBackwardParams& params = data.params;
  const float mean = __fdiv_rn(total, static_cast<float>(params.cols));
  const float k = __fmul_rn(__fmul_rn(mean, rstd), rstd);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (!data.has(v)) continue;
    const Eight<kDtype> dy = data.load(kOperandDy, v);
    const Eight<kDtype> h = data.load(kOperandH, v);
    float dh[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      dh[i] = __fmul_rn(__fmaf_rn(-h[i], k, __fmul_rn(dy[i], w[v][i])), rstd);
      dg[v][i] += dy[i] * __fmul_rn(h[i], rstd);
    }
    if (params.has_dsum) {
      const Eight<kDtype> dsum = data.load(kOperandDsum, v);
#pragma unroll
      for (int i = 0; i < kEight; ++i) dh[i] = __fadd_rn(dh[i], dsum[i]);
    }
    Eight<kDtype> dx;
    dx.assign(dh);
    const int col = data.threads.col(v);
    store_row<kRows>(params.dx, data.row, col, params.cols, dx);
    if (params.dresidual.data != nullptr) {
      store_row<kRows>(params.dresidual, data.row, col, params.cols, dx);
    }
  }
}

// Gains of a thread's columns; zero beyond the row.
template <Rows kRows, int kVectors>
__device__ __forceinline__ void load_all_gains(const RmsNormBackwardParams& params,
                                               const RowThreads& threads,
                                               float (&w)[kVectors][kEight]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (threads.col(v) >= params.cols) continue;
    load_gains<kRows>(params.g, params.one_plus_weight, threads.col(v), params.cols, w[v]);
  }
}

// The block's line of partial sums of dg.
template <Rows kRows, int kVectors>
__device__ __forceinline__ void store_partial_sums(const RmsNormBackwardParams& params,
                                                   const RowThreads& threads,
                                                   const float (&dg)[kVectors][kEight]) {
  const Matrix partials{params.partials, params.cols};
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (threads.col(v) >= params.cols) continue;
    Eight<Dtype::f32> eight;
    eight.assign(dg[v]);
    store_row<kRows>(partials, blockIdx.x, threads.col(v), params.cols, eight);
  }
}

// The first rows of the block, one per stage.
template <Dtype kDtype>
__device__ __forceinline__ void fill_ring(const RmsNormBackwardParams& params,
                                          const RowRing& ring) {
#pragma unroll 1
  for (int s = 0; s < ring.stages; ++s) {
    load_stage<kDtype>(params, ring, s, blockIdx.x + static_cast<unsigned>(s) * gridDim.x);
  }
}

// All rows of the block: its part of dg is in `dg` afterwards. `loads`: this warp fills the ring.
// `sums` has those of a row, one per vector and warp; two rows take turns.
template <Dtype kDtype, Rows kRows, int kVectors, int kSums>
__device__ __forceinline__ void walk_rows(const RmsNormBackwardParams& params, const RowRing& ring,
                                          const RowThreads& threads, bool loads,
                                          const float (&w)[kVectors][kEight],
                                          float (&dg)[kVectors][kEight], float (&sums)[2][kSums]) {
  RingCursor cursor;
  const auto begin_row = [&](unsigned row, float(&vector_sums)[kVectors]) {
    if constexpr (kRows == Rows::whole) ring.wait(cursor);
    sum_products(GradientRow<kDtype, kRows>{params, ring, threads, cursor.stage, row}, w,
                 vector_sums);
    cursor.advance(ring.stages);
  };
  float first_sums[kVectors] = {};
  begin_row(blockIdx.x, first_sums);
  store_warp_sums<kVectors>(first_sums, threads, sums[0]);
  int parity = 0;
  int stage = 0;
  int free_stage = 0;  // of the row before
#pragma unroll 1
  for (unsigned row = blockIdx.x; row < params.rows; row += gridDim.x) {
    __syncthreads();
    if (loads && row != blockIdx.x) {
      load_stage<kDtype>(params, ring, free_stage,
                         row + static_cast<unsigned>(ring.stages - 1) * gridDim.x);
    }
    const float rstd = params.rstd[row];
    const unsigned next = row + gridDim.x;
    const int next_stage = cursor.stage;
    float next_sums[kVectors] = {};
    if (next < params.rows) begin_row(next, next_sums);
    // Both sums by shuffles together, to hide their latency.
    const float total = sum_of_warps(sums[parity], kSums);
    parity ^= 1;
    store_warp_sums<kVectors>(next_sums, threads, sums[parity]);
    write_gradients(GradientRow<kDtype, kRows>{params, ring, threads, stage, row}, rstd, total, w,
                    dg);
    free_stage = stage;
    stage = next_stage;
  }
}

template <Dtype kDtype, Rows kRows, int kVectors>
__global__ __launch_bounds__(kRmsNormMaxThreads, 1) void rms_norm_backward_kernel(
    const __grid_constant__ RmsNormBackwardParams params) {
  constexpr int kSums = kVectors * kRmsNormMaxThreads / 32;
  __shared__ float sums[2][kSums];  // zero beyond those that a row has
  __shared__ alignas(8) std::uint64_t barriers[kRingMaxStages];
  extern __shared__ __align__(128) unsigned char storage[];
  const RowThreads threads = RowThreads::of_block(static_cast<int>(blockDim.x));
  const RowRing ring{params.operands,
                     params.dsum_in_ring ? 3 : 2,
                     static_cast<std::uint32_t>(params.cols * kElementBytes<kDtype>),
                     params.stages,
                     ptx::shared_address(storage),
                     ptx::shared_address(barriers)};
  const bool loads = kRows == Rows::whole && threadIdx.x < 32;  // the first warp
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * kSums; i += static_cast<int>(blockDim.x)) {
    sums[0][i] = 0;
  }
  if (loads && threadIdx.x == 0) ring.init();
  __syncthreads();
  ptx::wait_for_earlier_kernels();
  if (loads) fill_ring<kDtype>(params, ring);

  float dg[kVectors][kEight] = {};
  float w[kVectors][kEight] = {};
  load_all_gains<kRows>(params, threads, w);
  walk_rows<kDtype, kRows>(params, ring, threads, loads, w, dg, sums);
  ptx::let_next_kernel_start();
  store_partial_sums<kRows>(params, threads, dg);
}

}  // namespace octet::sm90
