// A copy of bytes, the yardstick of a kernel that memory bounds.
#pragma once

#include <octet/buffer.hpp>

#include <cstdint>
#include <vector>

namespace octet::bench {

// On the CPU with `threads`, done when it returns; on a CUDA device queued.
void copy_on_device(void* to, const void* from, std::size_t bytes, Device device, void* stream,
                    int threads);

// Buffers that are copied, in turn, as many as pass twice the cache.
class Copies {
 public:
  // `bytes` are copied by each of `uses` calls.
  Copies(std::size_t bytes, Device device, void* stream, std::int64_t uses);

  void copy(std::int64_t call) const;

 private:
  struct Pair {
    Buffer from;
    Buffer to;
  };
  std::vector<Pair> pairs_;
  void* stream_;
};

}  // namespace octet::bench
