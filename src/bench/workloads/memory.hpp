// The memory of a device: its size, how much a workload needs, and how it is copied.
#pragma once

#include <octet/buffer.hpp>
#include <octet/quantized.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

namespace octet::bench {

std::size_t cache_bytes(Device device);  // the last level; 0 if not reported
// On the CPU MemAvailable, beyond which Linux ends processes; unlimited if it is not reported.
std::size_t free_bytes(Device device);

std::size_t tensor_bytes(Dtype dtype, std::initializer_list<std::int64_t> shape);
QuantizedTensor allocate_quantized(const QuantizedLayout& layout, Device device);
// Copies within one device or between it and the host; synchronous.
void copy_bytes(void* to, const void* from, std::size_t bytes, Device device);

// Calls task(begin, end) for as many pieces of `bytes` as there are threads, in parallel.
void for_each_piece(std::size_t bytes, int threads,
                    const std::function<void(std::size_t begin, std::size_t end)>& task);

// Throws Error(out_of_memory) with both numbers if `bytes` are not free, before a dozen buffers are
// allocated and filled in vain.
void require_free(std::size_t bytes, std::size_t free, Device device);

// The number of input sets: enough to exceed twice the cache if one call of forward or backward
// reads `touched_bytes` of a set, but at most `uses`, and at most what fits half of the free
// memory.
std::int64_t input_set_count(std::size_t touched_bytes, std::size_t cache, std::int64_t uses);
std::int64_t input_set_count(std::size_t touched_bytes, std::size_t set_bytes, Device device,
                             std::int64_t uses);

// Synchronous on the CPU, with `threads`; queued on a CUDA device.
void copy_on_device(void* to, const void* from, std::size_t bytes, Device device, void* stream,
                    int threads);

// Buffers that are copied in turn, enough of them to exceed twice the cache: the yardstick of a
// memory-bound kernel.
class Copies {
 public:
  // Each of `uses` calls copies `bytes`.
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
