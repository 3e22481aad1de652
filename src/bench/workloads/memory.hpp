// The memory of a device: what it has room for, what a workload takes of it, and how it is copied.
#pragma once

#include <octet/buffer.hpp>
#include <octet/quantized.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

namespace octet::bench {

std::size_t cache_bytes(Device device);  // the last level; 0 where the system does not say
std::size_t free_bytes(Device device);   // without limit on the CPU, where pages come when written

std::size_t tensor_bytes(Dtype dtype, std::initializer_list<std::int64_t> shape);
QuantizedTensor allocate_quantized(const QuantizedLayout& layout, Device device);
// Within one device or between it and the host; waits until it is done.
void copy_bytes(void* to, const void* from, std::size_t bytes, Device device);

// task(begin, end) for as many pieces of `bytes` as there are threads, all at once.
void for_each_piece(std::size_t bytes, int threads,
                    const std::function<void(std::size_t begin, std::size_t end)>& task);

// Throws Error(out_of_memory) that names both numbers where `bytes` are not free, before a dozen
// buffers have been allocated and filled in vain.
void require_free(std::size_t bytes, std::size_t free, Device device);

// The number of input sets: as many as pass twice the cache where one call of forward or of backward
// reads `touched_bytes` of a set, no more than `uses`, and no more than half of the free memory
// takes.
std::int64_t input_set_count(std::size_t touched_bytes, std::size_t cache, std::int64_t uses);
std::int64_t input_set_count(std::size_t touched_bytes, std::size_t set_bytes, Device device,
                             std::int64_t uses);

// On the CPU with `threads`, done when it returns; on a CUDA device queued.
void copy_on_device(void* to, const void* from, std::size_t bytes, Device device, void* stream,
                    int threads);

// Buffers that are copied, in turn, as many as pass twice the cache: the yardstick of a memory-bound
// kernel.
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
