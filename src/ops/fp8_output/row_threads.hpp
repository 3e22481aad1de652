// How many threads of a Hopper kernel share a row that they keep in registers, to find its largest
// magnitude before they cast it.
#pragma once

#include <cstdint>

namespace octet {

struct RowThreads {
  int vectors;  // of a thread, of eight elements: 2, 4 or 8
  int count;    // a multiple of 32
};

// The fewest warps that hold a row. A warp has 256 neighbouring elements of each of its vectors.
constexpr RowThreads row_threads(std::int64_t cols) {
  const int vectors = cols <= 2048 ? 2 : cols <= 8192 ? 4 : 8;
  const std::int64_t of_warp = std::int64_t{256} * vectors;
  return {vectors, static_cast<int>(32 * ((cols + of_warp - 1) / of_warp))};
}

}  // namespace octet
