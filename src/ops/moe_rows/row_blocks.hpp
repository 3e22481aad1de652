// How the Hopper kernels cut a row of a token into blocks and threads, host and device.
#pragma once

#include "core/numeric.hpp"

#include <cstdint>

namespace octet {

// A row of `units`, `per_thread` of them per thread, in `chunks` blocks: as few blocks as possible,
// of whole warps, with as few idle threads as possible.
struct RowBlocks {
  static constexpr int kMaxThreads = 512;

  int units;
  int per_thread;
  int chunks;
  int threads;

  OCTET_HOST_DEVICE constexpr RowBlocks(int units_, int per_thread_)
      : units(units_),
        per_thread(per_thread_),
        chunks((units_ - 1) / (kMaxThreads * per_thread_) + 1),
        threads(0) {
    const int each = (units - 1) / (chunks * per_thread) + 1;
    threads = (each + 31) / 32 * 32;
  }

  // The unit number `index` of a thread. Neighbouring threads have neighbouring units. It is beyond
  // the end of the row for some of the last.
  OCTET_HOST_DEVICE constexpr int unit(int chunk, int index, int thread) const {
    return (chunk * per_thread + index) * threads + thread;
  }
};

}  // namespace octet
