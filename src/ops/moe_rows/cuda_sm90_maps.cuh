// The maps between slots and rows, as the Hopper kernels of moe_permute and moe_unpermute read
// them, and the rows that no slot has. Numbers out of range, and a source that row_of contradicts,
// count as -1: no address is ever computed from them.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/scheduler/raster.hpp"
#include "ops/moe_rows/row_blocks.hpp"

#include <octet/dtype.hpp>

#include <cstdint>

namespace octet::sm90 {

struct RowMaps {
  const std::int32_t* row_of;  // [tokens, top_k]
  std::int64_t row_of_pitch;
  const std::int32_t* source;  // [rows]; null where it is not needed
  std::int32_t slots;          // tokens * top_k
  std::int32_t rows;
  Divisor top_k{1};

  __device__ __forceinline__ int choices() const { return static_cast<int>(top_k.value); }
  __device__ __forceinline__ std::int32_t row(std::int64_t token, int k) const {
    const std::int32_t row = row_of[token * row_of_pitch + k];
    return row >= 0 && row < rows ? row : -1;
  }
  // The row of a slot, if it agrees that it is the slot's.
  __device__ __forceinline__ std::int32_t own_row(std::int64_t token, int k) const {
    const std::int32_t row = this->row(token, k);
    return row >= 0 && source[row] == token * choices() + k ? row : -1;
  }
  __device__ __forceinline__ bool has_slot(std::int32_t row) const {
    const std::int32_t slot = source[row];
    if (slot < 0 || slot >= slots) return false;
    const int token = top_k.quotient(slot);
    return this->row(token, slot - token * choices()) == row;
  }
};

// One float per slot, [tokens, top_k]; null data: none.
struct SlotFloats {
  float* data;
  std::int64_t pitch;

  __device__ __forceinline__ float& at(std::int64_t token, int k) const {
    return data[token * pitch + k];
  }
};

// Rows that are zeroed: those without a slot, or none.
struct ZeroedRows {
  void* data;          // [rows, units]; null: none
  std::int64_t pitch;  // units
  int units;
  int unit_bytes;        // 16, 4 or 2
  float* row_weight;     // [rows], zeroed too; or null
  unsigned first_block;  // blocks from here on look for them, a row per thread
};

template <class Unit>
__device__ __forceinline__ void zero_row(const ZeroedRows& zeroed, std::int64_t row) {
  Unit* const to = static_cast<Unit*>(zeroed.data) + row * zeroed.pitch;
  for (int i = static_cast<int>(threadIdx.x % 32); i < zeroed.units; i += 32) to[i] = Unit{};
}

// A warp looks at 32 rows, and zeroes those that no slot has one after the other.
__device__ __forceinline__ void zero_rows(const RowMaps& maps, const ZeroedRows& zeroed) {
  const std::int64_t thread =
      std::int64_t{blockIdx.x - zeroed.first_block} * blockDim.x + threadIdx.x;
  const bool empty = thread < maps.rows && !maps.has_slot(static_cast<std::int32_t>(thread));
  if (empty && zeroed.row_weight != nullptr) zeroed.row_weight[thread] = 0;
  const std::int64_t first = thread - threadIdx.x % 32;
  for (unsigned left = __ballot_sync(~0u, empty); left != 0; left &= left - 1) {
    const std::int64_t row = first + __ffs(static_cast<int>(left)) - 1;
    switch (zeroed.unit_bytes) {
      case 16: zero_row<uint4>(zeroed, row); break;
      case 4: zero_row<std::uint32_t>(zeroed, row); break;
      default: zero_row<std::uint16_t>(zeroed, row); break;
    }
  }
}

}  // namespace octet::sm90
