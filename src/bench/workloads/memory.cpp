#include "bench/workloads/memory.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/timing/machine_facts.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <limits>
#include <random>
#include <sstream>

namespace octet::bench {
namespace {

std::string gibibytes(std::size_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / (1 << 30) << " GiB";
  return text.str();
}

// The copied data is random rather than zero.
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

std::size_t cache_bytes(Device device) {
  return device.type == DeviceType::cuda ? cuda::properties(device.index).l2_bytes
                                         : last_level_cache_bytes();
}

std::size_t free_bytes(Device device) {
  if (device.type == DeviceType::cuda) return free_cuda_bytes(device);
  const std::size_t available = available_memory_bytes();
  return available > 0 ? available : std::numeric_limits<std::size_t>::max();
}

std::size_t tensor_bytes(Dtype dtype, std::initializer_list<std::int64_t> shape) {
  auto bytes = static_cast<std::size_t>(size_bytes(dtype));
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

QuantizedTensor allocate_quantized(const QuantizedLayout& layout, Device device) {
  return {layout.rows, layout.cols, layout.dtype, layout.block, device};
}

void copy_bytes(void* to, const void* from, std::size_t bytes, Device device) {
  if (device.type == DeviceType::cuda) {
    cuda::copy(to, from, bytes, device.index);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void for_each_piece(std::size_t bytes, int threads,
                    const std::function<void(std::size_t begin, std::size_t end)>& task) {
  const std::size_t piece =
      (bytes + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
  parallel_for(threads, threads, [&](std::int64_t i) {
    const std::size_t begin = std::min(bytes, static_cast<std::size_t>(i) * piece);
    task(begin, std::min(bytes, begin + piece));
  });
}

void require_free(std::size_t bytes, std::size_t free, Device device) {
  if (bytes <= free) return;
  fail(ErrorCode::out_of_memory, "bench: the workload takes ", gibibytes(bytes), " on ",
       name(device), ", of which ", gibibytes(free), " are free");
}

std::int64_t input_set_count(std::size_t touched_bytes, std::size_t cache, std::int64_t uses) {
  const std::size_t wanted_bytes = 2 * cache;
  if (touched_bytes == 0 || touched_bytes >= wanted_bytes) return 1;
  const auto sets = static_cast<std::int64_t>((wanted_bytes + touched_bytes - 1) / touched_bytes);
  return std::clamp<std::int64_t>(sets, 1, std::max<std::int64_t>(uses, 1));
}

std::int64_t input_set_count(std::size_t touched_bytes, std::size_t set_bytes, Device device,
                             std::int64_t uses) {
  const std::int64_t wanted = input_set_count(touched_bytes, cache_bytes(device), uses);
  const std::size_t fitting = free_bytes(device) / 2 / std::max<std::size_t>(set_bytes, 1);
  return fitting < static_cast<std::size_t>(wanted)
             ? std::max<std::int64_t>(static_cast<std::int64_t>(fitting), 1)
             : wanted;
}

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
