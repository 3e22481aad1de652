#include "bench/timing/cache_flush.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/workloads/memory.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstring>

namespace octet::bench {
namespace {

// Where the system does not say how large the cache is.
constexpr std::size_t kLeastCache = std::size_t{32} << 20;

}  // namespace

CacheFlush::CacheFlush(Device device, void* stream)
    : memory_(2 * std::max(cache_bytes(device), kLeastCache), device), stream_(stream) {}

// On the CPU by every thread, since cores have caches of their own that the last level need not
// include.
void CacheFlush::operator()() const {
  if (memory_.device().type == DeviceType::cuda) {
    queue_clear(memory_.data(), memory_.bytes(), memory_.device(), stream_);
    return;
  }
  for_each_piece(memory_.bytes(), default_threads(), [&](std::size_t begin, std::size_t end) {
    std::memset(static_cast<char*>(memory_.data()) + begin, 0, end - begin);
  });
}

}  // namespace octet::bench
