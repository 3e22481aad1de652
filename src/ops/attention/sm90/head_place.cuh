// Where the rows of a head lie for the copy engine, in dense and in ragged tensors: boxes of 64 columns at five
// coordinates (device/cuda/tensor_map.hpp).
#pragma once

#include "device/ptx/bulk_copy.cuh"
#include "device/scheduler/ragged_rows.hpp"

namespace octet::attention {

struct HeadPlace {
  std::int32_t first;  // coordinate of the sequence's first row
  std::int32_t third, fourth, fifth;

  // `begin`: the first row of a sequence of a ragged tensor.
  __device__ __forceinline__ HeadPlace(bool ragged, std::int32_t sequence, std::int32_t begin,
                                       std::int32_t rows, std::int32_t head)
      : first(ragged ? ragged_row(begin, begin + rows) : 0),
        third(ragged ? begin + rows : head),
        fourth(ragged ? kRaggedExtent : sequence),
        fifth(ragged ? head : 0) {}

  __device__ __forceinline__ void load(std::uint32_t to, const CUtensorMap& map, int col, int row,
                                       std::uint32_t barrier) const {
    ptx::load_box(to, &map, col, first + row, third, fourth, fifth, barrier);
  }
  __device__ __forceinline__ void store(const CUtensorMap& map, std::uint32_t from, int col,
                                        int row) const {
    ptx::store_box(&map, from, col, first + row, third, fourth, fifth);
  }
};

}  // namespace octet::attention
