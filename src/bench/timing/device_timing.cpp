#include "bench/timing/device_timing.hpp"

#include "bench/timing/nvml.hpp"
#include "bench/timing/repeat.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"

namespace octet::bench {
namespace {

void check_task(const char* caller, const Task& task) {
  if (task.empty()) refuse_argument(caller, ": the task has no parts");
  for (const Part& part : task) {
    if (!part) refuse_argument(caller, ": a part of the task is an empty function");
  }
}

}  // namespace

Clock DeviceTiming::Instruments::clock() {
  Clock clock = steady_clock();
  clock.flush_cache = [this] { (*flush)(); };
  return clock;
}

BatchClock DeviceTiming::Instruments::batch_clock() {
  return {[this](const Launches& lead_in, const Launches& timed) {
            return queue->seconds(lead_in, timed);
          },
          [this] { monitor->begin(); }, [this] { (*flush)(); }};
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

}  // namespace octet::bench
