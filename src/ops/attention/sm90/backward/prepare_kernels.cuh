// What comes before the products of the backward pass: tables of dense sequences, delta and lse of every query
// padded to rows of 256, and the gradient of the sinks. Memory-bound: out and dout are read once.
#pragma once

#include "device/ptx/arithmetic.cuh"
#include "device/ptx/barrier.cuh"
#include "device/scheduler/block_scan.cuh"
#include "ops/attention/sm90/backward/config.hpp"
#include "ops/attention/sm90/backward/params.hpp"

namespace octet::attention {

static_assert(octet::sm90::kScanThreads == kTablesThreads);

__device__ __forceinline__ void clear_progress(const TablesParams& params) {
  for (int i = static_cast<int>(threadIdx.x); i < params.progress_words; i += kTablesThreads) {
    params.progress[i] = 0;
  }
}

// One block: the units of dense sequences, which are alike.
__global__ __launch_bounds__(octet::sm90::kScanThreads) void dense_tables_kernel(
    const __grid_constant__ TablesParams params) {
  using octet::sm90::kScanThreads;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  __shared__ std::uint32_t totals[octet::sm90::kScanWarps];
  __shared__ std::uint32_t carry;
  const Shape& shape = params.shape;
  const Tables& tables = params.tables;
  const int thread = static_cast<int>(threadIdx.x);
  clear_progress(params);
  if (thread == 0) carry = 0;
  __syncthreads();
  // Tiles of the units before each, of one sequence
  const SequenceMask mask = shape.mask_of(0, shape.seq_q, shape.seq_kv);
  const int rows = rows_of(shape.seq_q), units = rows * kRowUnits;
  for (int first = 0; first < units; first += kScanThreads) {
    const int unit = first + thread;
    const TileRange seen = unit < units ? key_tiles_of_unit(mask, unit) : TileRange{};
    const auto count = static_cast<std::uint32_t>(seen.count());
    const std::uint32_t until = octet::sm90::scan_sums(count, totals) + carry;
    if (unit < units) {
      tables.units[unit] = {static_cast<std::int32_t>(until - count), seen.begin, seen.end, 0};
    }
    __syncthreads();
    if (thread == kScanThreads - 1) carry = until;
    __syncthreads();
  }
  const int tiles = static_cast<int>(carry);
  for (int i = units + thread; i < shape.batch * units; i += kScanThreads) {
    UnitEntry entry = tables.units[i % units];
    entry.first_tile += i / units * tiles;
    tables.units[i] = entry;
  }
}

template <Dtype kDtype>
__device__ __forceinline__ float dot_of_words(std::uint32_t a, std::uint32_t b, float sum) {
  if constexpr (kDtype == Dtype::bf16) {
    sum = __fmaf_rn(__uint_as_float(a << 16), __uint_as_float(b << 16), sum);
    return __fmaf_rn(__uint_as_float(a & 0xFFFF0000u), __uint_as_float(b & 0xFFFF0000u), sum);
  } else {
    sum = __fmaf_rn(ptx::f32_from_f16_bits(a & 0xFFFF), ptx::f32_from_f16_bits(b & 0xFFFF), sum);
    return __fmaf_rn(ptx::f32_from_f16_bits(a >> 16), ptx::f32_from_f16_bits(b >> 16), sum);
  }
}

// A block takes a row of 256 queries of one head, kDim / 8 lanes a query: 16 bytes of out and of dout each.
template <Dtype kDtype, int kDim>
__global__ __launch_bounds__(kPrepareThreads) void prepare_kernel(
    const __grid_constant__ PrepareParams params) {
  constexpr int kLanes = kDim / 8;
  constexpr int kAtOnce = kPrepareThreads / kLanes;
  constexpr int kTurns = kRow / kAtOnce;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const Shape& shape = params.shape;
  const int head = static_cast<int>(blockIdx.x) % shape.heads_q;
  const int row = static_cast<int>(blockIdx.x) / shape.heads_q;
  const int entries = shape.batch + shape.packed;
  // The last sequence that begins at or before the row.
  int sequence = 0;
  if (shape.packed) {
    for (int end = entries; end - sequence > 1;) {
      const int middle = (sequence + end) / 2;
      (params.tables.sequences[middle].first_row <= row ? sequence : end) = middle;
    }
  } else {
    sequence = row / rows_of(shape.seq_q);
  }
  const SequenceEntry entry = entry_of(shape, params.tables, sequence);
  const bool exists = row < entry.first_row + entry.rows;
  const bool sees_nothing = sequence == shape.batch;
  const int first = (row - entry.first_row) * kRow;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int at = static_cast<int>(threadIdx.x) / kLanes;
  const auto from = [&](const HeadsPointer& heads, int query) {
    const std::int64_t sequence_at =
        shape.packed ? entry.q_begin * heads.row_step : sequence * heads.batch_step;
    return reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(heads.data) +
                                          sequence_at + query * heads.row_step +
                                          head * heads.head_step + lane * 8);
  };
  const auto of_query = [&](std::int64_t batch_step, std::int64_t head_step, int query) {
    return head * head_step + (shape.packed ? std::int64_t{entry.q_begin} : sequence * batch_step) +
           query;
  };
  constexpr float kLog2E = 1.44269504088896341f;
  const float sink = params.sink != nullptr ? params.sink[head * params.sink_step] : 0;
  float sink_sum = 0;
  if (exists) {
#pragma unroll 4
    for (int turn = 0; turn < kTurns; ++turn) {
      const int query = first + turn * kAtOnce + at;
      const bool there = query < entry.queries && !sees_nothing;
      float sum = 0, lse = -INFINITY;
      if (there) lse = params.lse[of_query(params.lse_batch_step, params.lse_head_step, query)];
      if (there && lane * 8 < params.dim_v) {
        const uint4 a = *from(params.out, query), b = *from(params.dout, query);
        sum = dot_of_words<kDtype>(a.x, b.x, sum);
        sum = dot_of_words<kDtype>(a.y, b.y, sum);
        sum = dot_of_words<kDtype>(a.z, b.z, sum);
        sum = dot_of_words<kDtype>(a.w, b.w, sum);
      }
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane != 0) continue;
      if (there && params.dlse != nullptr) {
        sum -= params.dlse[of_query(params.dlse_batch_step, params.dlse_head_step, query)];
      }
      // No key: no probability, whatever the scores of zero-filled rows are.
      const bool sees = lse != -INFINITY;
      const std::int64_t to =
          (std::int64_t{head} * params.tables.rows_bound + row) * kRow + turn * kAtOnce + at;
      params.tables.lse[to] = sees ? lse * kLog2E : INFINITY;
      params.tables.delta[to] = sees ? sum : 0;
      if (params.sink != nullptr && sees) {
        sink_sum -= ptx::exp2_approx((sink - lse) * kLog2E) * sum;
      }
    }
  }
  if (params.sink == nullptr) return;
  __shared__ float sums[kPrepareThreads / kLanes];
  if (lane == 0) sums[at] = sink_sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (const float sum : sums) total += sum;
  params.tables.sink_sums[std::int64_t{head} * params.tables.rows_bound + row] = total;
}

// dsink of a head, in the order of its rows. One block per head.
__global__ __launch_bounds__(kPrepareThreads) void sink_kernel(
    const __grid_constant__ PrepareParams params) {
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const int head = static_cast<int>(blockIdx.x);
  const float* from = params.tables.sink_sums + std::int64_t{head} * params.tables.rows_bound;
  __shared__ float sums[kPrepareThreads];
  float sum = 0;
  for (int row = static_cast<int>(threadIdx.x); row < params.rows; row += kPrepareThreads) {
    sum += from[row];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (const float part : sums) total += part;
  params.dsink[head * params.dsink_step] = total;
}

}  // namespace octet::attention
