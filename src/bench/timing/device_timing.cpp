#include "bench/timing/device_timing.hpp"

#include "bench/workloads/memory.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"

#include <octet/bench/metrics.hpp>

#include <algorithm>
#include <cstring>

namespace octet::bench {
namespace {

// The least cache size to flush, also used if the system does not report one.
constexpr std::size_t kLeastCache = std::size_t{32} << 20;

void check_task(const char* caller, const Task& task) {
  if (task.empty()) refuse_argument(caller, ": the task has no parts");
  for (const Part& part : task) {
    if (!part) refuse_argument(caller, ": a part of the task is an empty function");
  }
}

}  // namespace

CacheFlush::CacheFlush(Device device, void* stream)
    : memory_(2 * std::max(cache_bytes(device), kLeastCache), device), stream_(stream) {}

// On the CPU every thread writes a part, since cores have caches of their own that the last level
// need not include.
void CacheFlush::operator()() const {
  if (memory_.device().type == DeviceType::cuda) {
    queue_clear(memory_.data(), memory_.bytes(), memory_.device(), stream_);
    return;
  }
  for_each_piece(memory_.bytes(), default_threads(), [&](std::size_t begin, std::size_t end) {
    std::memset(static_cast<char*>(memory_.data()) + begin, 0, end - begin);
  });
}

Clock DeviceTiming::Instruments::clock() {
  Clock clock = steady_clock();
  clock.flush_cache = [this] { (*flush)(); };
  clock.timing_begins = timing_begins;
  return clock;
}

BatchClock DeviceTiming::Instruments::batch_clock() {
  return {[this](const Launches& lead_in, const Launches& timed) {
            return queue->seconds(lead_in, timed);
          },
          [this] {
            timing_begins();
            monitor->begin();
          },
          [this] { (*flush)(); }};
}

template <class OnCpu, class OnDevice>
auto DeviceTiming::Instruments::time(const Protocol& protocol, const OnCpu& on_cpu,
                                     const OnDevice& on_device) {
  if (protocol.cold && !flush) {
    flush = std::make_unique<CacheFlush>(device, queue ? queue->stream() : nullptr);
  }
  return repeat_where_noisy(protocol, [&](std::int64_t first_call) {
    if (!queue) return on_cpu(first_call, clock());
    auto result = on_device(first_call, batch_clock());
    samples_of(result).gpu = monitor->end();
    return result;
  });
}

DeviceTiming::DeviceTiming(Device device, void* stream)
    : instruments_(std::make_unique<Instruments>(Instruments{device})) {
  check_device("bench", device);
  if (device.type != DeviceType::cuda) return;
  instruments_->queue = std::make_unique<DeviceQueue>(device, stream);
  instruments_->monitor = std::make_unique<GpuMonitor>(nvml_reader(device));
}

DeviceTiming::~DeviceTiming() = default;

Device DeviceTiming::device() const { return instruments_->device; }

void* DeviceTiming::stream() const {
  return instruments_->queue ? instruments_->queue->stream() : nullptr;
}

void DeviceTiming::on_timing_begins(std::function<void()> hook) {
  instruments_->timing_begins = std::move(hook);
}

Samples DeviceTiming::measure(const Task& task, const Protocol& protocol) {
  check_task("measure", task);
  return instruments_->time(
      protocol,
      [&](std::int64_t first, const Clock& clock) {
        return bench::measure(counting_from(first, task), protocol, clock);
      },
      [&](std::int64_t first, const BatchClock& clock) {
        return measure_batches(counting_from(first, task), protocol, clock);
      });
}

Comparison DeviceTiming::compare(const Task& ours, const Task& peer, const Protocol& protocol) {
  check_task("compare", ours);
  check_task("compare", peer);
  if (ours.size() != peer.size()) {
    refuse_argument("compare: both tasks must have the same number of parts, got ", ours.size(),
                    " and ", peer.size());
  }
  return instruments_->time(
      protocol,
      [&](std::int64_t first, const Clock& clock) {
        return bench::compare(counting_from(first, ours), counting_from(first, peer), protocol,
                              clock);
      },
      [&](std::int64_t first, const BatchClock& clock) {
        return compare_batches(counting_from(first, ours), counting_from(first, peer), protocol,
                               clock);
      });
}

double gemm_tflops(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds /
         1e12;
}

double gigabytes_per_second(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9;
}

Comparison compare_with_copy(DeviceTiming& timing, const Part& kernel, std::size_t bytes,
                             const Protocol& protocol) {
  if (bytes < 2) refuse_argument("compare_with_copy: bytes must be at least 2, got ", bytes);
  const Copies copies(bytes / 2, timing.device(), timing.stream(), most_calls(protocol));
  return timing.compare({kernel}, {[&](std::int64_t call) { copies.copy(call); }}, protocol);
}

}  // namespace octet::bench
