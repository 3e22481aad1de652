// rms_norm on Hopper, forward and backward: a row in the registers of its threads, read once.
//
// A thread holds kVectors times eight neighbouring elements, `row_threads` times eight apart. The sum
// over the row is the balanced tree of rms_norm.hpp: lanes by shuffles, warps through shared memory.
// Bound by memory: what counts is how many bytes are in flight. Backward keeps as many blocks as fit
// and gives each every n-th row, so that the sums of dg over its rows stay in registers; they leave as
// one line of partial sums per block, which device/rows/partial_sums adds in a fixed order.
#pragma once

#include "device/ptx/dependent_launch.cuh"
#include "device/ptx/early_launch.cuh"
#include "device/rows/row_ring.cuh"
#include "device/rows/tree_sum.cuh"

namespace octet::sm90 {

inline constexpr int kRmsNormMostThreads = 512;

struct RmsNormForwardParams {
  Matrix x;         // [rows, cols]
  Matrix residual;  // [rows, cols]; no data: none
  Weights g;        // [cols]
  Matrix y;         // [rows, cols]
  Matrix sum;       // [rows, cols], with a residual
  float* rstd;      // [rows], or null
  std::int64_t rows;
  int cols;
  int row_threads_log2;
  float eps;
  bool one_plus_weight;
};

struct RmsNormBackwardParams {
  Matrix operands[3];  // [rows, cols]: dy, h, and dsum where there is one
  bool has_dsum;
  Weights g;          // [cols]
  const float* rstd;  // [rows]
  Matrix dx;          // [rows, cols]
  Matrix dresidual;   // [rows, cols]; no data: not wanted
  float* partials;    // [blocks, cols]: dg over the rows of each block
  std::int64_t rows;
  int cols;
  int row_threads_log2;  // of the whole block
  int stages;            // of the ring
  bool one_plus_weight;
};

// The threads of a block that share a row, a power of two from 32 on, and where this one stands.
struct RowThreads {
  int log2;
  int index;  // of this thread in its row
  int row;    // of the block's rows

  __device__ explicit RowThreads(int threads_log2)
      : log2(threads_log2),
        index(static_cast<int>(threadIdx.x) & ((1 << threads_log2) - 1)),
        row(static_cast<int>(threadIdx.x) >> threads_log2) {}
  __device__ int col(int vector) const { return ((vector << log2) + index) * kEight; }
  __device__ int warps() const { return 1 << (log2 - 5); }
};

// The tree over a row, in three steps: each warp leaves the sums of its vectors of eight, all wait,
// and every thread of the row adds them with sum_of_warps().
template <int kVectors>
__device__ __forceinline__ void leave_sums(const float (&eights)[kVectors],
                                           const RowThreads& threads, float* sums) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const float sum = sum_of_lanes(eights[v]);
    if (threadIdx.x % 32 == 0) sums[v * threads.warps() + threads.index / 32] = sum;
  }
}

__device__ __forceinline__ void wait_for_sums(const RowThreads& threads) {
  if (threads.log2 == 5) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

template <Rows kRows>
__device__ __forceinline__ void load_gains(const Weights& g, bool one_plus_weight, int col,
                                           int cols, float (&w)[kEight]) {
  load_weights<kRows>(g, col, cols, w);
  if (!one_plus_weight) return;
#pragma unroll
  for (int i = 0; i < kEight; ++i) w[i] = __fadd_rn(1.0f, w[i]);
}

// x + residual, rounded; or x.
template <Dtype kDtype, Rows kRows>
__device__ __forceinline__ Eight<kDtype> load_normed(const RmsNormForwardParams& params,
                                                     std::int64_t row, int col) {
  Eight<kDtype> h = load_row<kDtype, kRows>(params.x, row, col, params.cols);
  if (params.residual.data == nullptr) return h;
  const Eight<kDtype> residual = load_row<kDtype, kRows>(params.residual, row, col, params.cols);
  float sums[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) sums[i] = __fadd_rn(h[i], residual[i]);
  h.assign(sums);
  return h;
}

template <Dtype kDtype>
__device__ __forceinline__ float sum_of_squares(const Eight<kDtype>& h) {
  float squares[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) squares[i] = __fmul_rn(h[i], h[i]);
  return sum_of_eight(squares);
}

__device__ __forceinline__ float rstd_of(float sum_of_squares, int cols, float eps) {
  const float mean = __fdiv_rn(sum_of_squares, static_cast<float>(cols));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

template <Dtype kDtype>
__device__ __forceinline__ Eight<kDtype> normed(const Eight<kDtype>& h, float rstd,
                                                const float (&w)[kEight]) {
  float y[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) y[i] = __fmul_rn(__fmul_rn(h[i], rstd), w[i]);
  Eight<kDtype> result;
  result.assign(y);
  return result;
}

template <Dtype kDtype, Rows kRows, int kVectors>
__global__ __launch_bounds__(kRmsNormMostThreads) void rms_norm_forward_kernel(
    const __grid_constant__ RmsNormForwardParams params) {
  __shared__ float shared[kVectors * kRmsNormMostThreads / 32];
  const RowThreads threads(params.row_threads_log2);
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x >> threads.log2) + threads.row;
  const bool valid = row < params.rows;
  ptx::wait_for_earlier_kernels();

  // Read
  Eight<kDtype> h[kVectors];
  float eights[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    h[v] = {};
    if (valid && threads.col(v) < params.cols)
      h[v] = load_normed<kDtype, kRows>(params, row, threads.col(v));
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) eights[v] = sum_of_squares(h[v]);

  // Root mean square
  float* sums = shared + threads.row * threads.warps() * kVectors;
  leave_sums(eights, threads, sums);
  wait_for_sums(threads);
  const float sum = sum_of_warps(sums, threads.warps() * kVectors);
  const float rstd = rstd_of(sum, params.cols, params.eps);
  if (!valid) return;
  if (params.rstd != nullptr && threads.index == 0) params.rstd[row] = rstd;

    // Write
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int col = threads.col(v);
    if (col >= params.cols) continue;
    float w[kEight];
    load_gains<kRows>(params.g, params.one_plus_weight, col, params.cols, w);
    store_row<kRows>(params.y, row, col, params.cols, normed(h[v], rstd, w));
    if (params.residual.data != nullptr) store_row<kRows>(params.sum, row, col, params.cols, h[v]);
  }
}

enum RmsNormOperand { kOperandDy, kOperandH, kOperandDsum };

// Rows of a block that are summed before one barrier: two, unless rows are long. The ring holds as many
// others. 16384x4096 bf16 on an H200: 0.92 of a copy with one, 0.94 with two.
template <int kVectors>
inline constexpr int kRmsNormBatch = kVectors > 2 ? 1 : 2;

// The rows of backward: from the ring, or where they are ragged from global memory at each use.
template <Dtype kDtype, Rows kRows>
struct GradientRows {
  const RmsNormBackwardParams& params;
  RowRing ring;

  __device__ __forceinline__ void begin() const {
    if constexpr (kRows == Rows::whole) {
      if (threadIdx.x == 0) ring.init();
      __syncthreads();
    }
    ptx::wait_for_earlier_kernels();
    fill(0, ring.stages);
  }
  // By all threads, when none needs what the stages of these turns held before.
  __device__ __forceinline__ void fill(int first, int count) const {
    if constexpr (kRows == Rows::whole) {
      if (threadIdx.x != 0) return;
      for (int turn = first; turn < first + count; ++turn) {
        ring.template fill<kElementBytes<kDtype>>(turn);
      }
    }
  }
  __device__ __forceinline__ void wait(int turn) const {
    if constexpr (kRows == Rows::whole) ring.wait(turn);
  }
  __device__ __forceinline__ std::int64_t row(int turn) const {
    return blockIdx.x + std::int64_t{turn} * gridDim.x;
  }
  __device__ __forceinline__ Eight<kDtype> load(RmsNormOperand operand, int turn, int col) const {
    if constexpr (kRows == Rows::whole) {
      return load_shared_eight<kDtype>(ring.row_address(turn % ring.stages, operand) +
                                       static_cast<std::uint32_t>(col) * kElementBytes<kDtype>);
    } else {
      return load_row<kDtype, kRows>(params.operands[operand], row(turn), col, params.cols);
    }
  }
};

// The sum over a row of dy * w * h.
template <Dtype kDtype, Rows kRows, int kVectors>
__device__ __forceinline__ void sum_products(const GradientRows<kDtype, kRows>& data, int turn,
                                             const RowThreads& threads,
                                             const float (&w)[kVectors][kEight],
                                             float (&eights)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int col = threads.col(v);
    eights[v] = 0;
    if (col >= data.params.cols) continue;
    const Eight<kDtype> dy = data.load(kOperandDy, turn, col);
    const Eight<kDtype> h = data.load(kOperandH, turn, col);
    float terms[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) terms[i] = __fmul_rn(__fmul_rn(dy[i], w[v][i]), h[i]);
    eights[v] = sum_of_eight(terms);
  }
}

// dx of a row, and what it adds to dg.
template <Dtype kDtype, Rows kRows, int kVectors>
__device__ __forceinline__ void write_gradients(const GradientRows<kDtype, kRows>& data, int turn,
                                                const RowThreads& threads, float rstd, float k,
                                                const float (&w)[kVectors][kEight],
                                                float (&dg)[kVectors][kEight]) {
  const RmsNormBackwardParams& params = data.params;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int col = threads.col(v);
    if (col >= params.cols) continue;
    const Eight<kDtype> dy = data.load(kOperandDy, turn, col);
    const Eight<kDtype> h = data.load(kOperandH, turn, col);
    float dh[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      dh[i] = __fmul_rn(__fmaf_rn(-h[i], k, __fmul_rn(dy[i], w[v][i])), rstd);
      dg[v][i] += dy[i] * __fmul_rn(h[i], rstd);
    }
    if (params.has_dsum) {
      const Eight<kDtype> dsum = data.load(kOperandDsum, turn, col);
#pragma unroll
      for (int i = 0; i < kEight; ++i) dh[i] = __fadd_rn(dh[i], dsum[i]);
    }
    Eight<kDtype> dx;
    dx.assign(dh);
    store_row<kRows>(params.dx, data.row(turn), col, params.cols, dx);
    if (params.dresidual.data != nullptr) {
      store_row<kRows>(params.dresidual, data.row(turn), col, params.cols, dx);
    }
  }
}

template <Dtype kDtype, Rows kRows, int kVectors>
__global__ __launch_bounds__(kRmsNormMostThreads) void rms_norm_backward_kernel(
    const __grid_constant__ RmsNormBackwardParams params) {
  constexpr int kBatch = kRmsNormBatch<kVectors>;
  constexpr int kSums = kVectors * kRmsNormMostThreads / 32;
  __shared__ float shared[2][kBatch][kSums];
  __shared__ alignas(8) std::uint64_t barriers[kRingMostStages];
  extern __shared__ __align__(128) unsigned char storage[];
  const RowThreads threads(params.row_threads_log2);
  const GradientRows<kDtype, kRows> data{
      params,
      {params.operands, params.has_dsum ? 3 : 2, params.rows,
       static_cast<std::uint32_t>(params.cols * kElementBytes<kDtype>), params.stages,
       ptx::shared_address(storage), ptx::shared_address(barriers)}};
  data.begin();

  float dg[kVectors][kEight] = {};
  float w[kVectors][kEight] = {};
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (threads.col(v) >= params.cols) continue;
    load_gains<kRows>(params.g, params.one_plus_weight, threads.col(v), params.cols, w[v]);
  }
  int parity = 0;
  for (int turn = 0; data.row(turn) < params.rows; turn += kBatch) {
    float rstd[kBatch];
    float(&sums)[kBatch][kSums] = shared[parity];
    parity ^= 1;

    // Sums over the rows
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (b > 0 && data.row(turn + b) >= params.rows) continue;
      rstd[b] = params.rstd[data.row(turn + b)];
      data.wait(turn + b);
      float eights[kVectors];
      sum_products(data, turn + b, threads, w, eights);
      leave_sums(eights, threads, sums[b]);
    }
    wait_for_sums(threads);
    // All have done with the rows of the batch before.
    if (turn > 0) data.fill(turn - kBatch + params.stages, kBatch);

      // Gradients
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (b > 0 && data.row(turn + b) >= params.rows) continue;
      const float sum = sum_of_warps(sums[b], threads.warps() * kVectors);
      const float mean = __fdiv_rn(sum, static_cast<float>(params.cols));
      const float k = __fmul_rn(__fmul_rn(mean, rstd[b]), rstd[b]);
      write_gradients(data, turn + b, threads, rstd[b], k, w, dg);
    }
  }

  // Partial sums
  ptx::let_next_kernel_start();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    float* to = params.partials + std::int64_t{blockIdx.x} * params.cols + threads.col(v);
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      if (threads.col(v) + i < params.cols) to[i] = dg[v][i];
    }
  }
}

}  // namespace octet::sm90
