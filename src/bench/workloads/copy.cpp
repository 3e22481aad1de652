#include "bench/workloads/copy.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/workloads/memory.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace octet::bench {
namespace {

// Random numbers rather than zeros are what is copied.
std::vector<std::uint64_t> random_words(std::size_t bytes) {
  std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t) + 1);
  std::mt19937_64 generator(1);  // NOLINT: the same numbers every time
  for (std::uint64_t& word : words) word = generator();
  return words;
}

void fill(const Buffer& buffer) {
  constexpr std::size_t kPattern = std::size_t{1} << 20;
  const std::vector<std::uint64_t> pattern = random_words(std::min(buffer.bytes(), kPattern));
  for (std::size_t at = 0; at < buffer.bytes(); at += kPattern) {
    copy_bytes(static_cast<char*>(buffer.data()) + at, pattern.data(),
               std::min(kPattern, buffer.bytes() - at), buffer.device());
  }
}

}  // namespace

void copy_on_device(void* to, const void* from, std::size_t bytes, Device device, void* stream,
                    int threads) {
  if (device.type == DeviceType::cuda) {
    queue_copy(to, from, bytes, device, stream);
    return;
  }
  for_each_piece(bytes, threads, [&](std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                end - begin);
  });
}

Copies::Copies(std::size_t bytes, Device device, void* stream, std::int64_t uses)
    : stream_(stream) {
  require_free(2 * bytes, free_bytes(device), device);
  const std::int64_t count = input_set_count(bytes, 2 * bytes, device, uses);
  for (std::int64_t i = 0; i < count; ++i) {
    pairs_.push_back({Buffer(bytes, device), Buffer(bytes, device)});
    fill(pairs_.back().from);
  }
}

void Copies::copy(std::int64_t call) const {
  const Pair& pair = pairs_[static_cast<std::size_t>(call) % pairs_.size()];
  copy_on_device(pair.to.data(), pair.from.data(), pair.from.bytes(), pair.from.device(), stream_,
                 default_threads());
}

}  // namespace octet::bench
