#include "bench/device_timing.hpp"

#include "bench/nvml.hpp"

namespace octet::bench {

DeviceTiming::DeviceTiming(Device device) {
  if (device.type != DeviceType::cuda) return;
  queue_ = std::make_unique<DeviceQueue>(device);
  monitor_ = std::make_unique<GpuMonitor>(nvml_reader(device));
}

BatchClock DeviceTiming::batch_clock() {
  return {[this](const Launches& lead_in, const Launches& timed) {
            return queue_->seconds(lead_in, timed);
          },
          [this] { monitor_->begin(); }};
}

Samples DeviceTiming::measure(const Task& task, const Protocol& protocol) {
  if (!queue_) return bench::measure(task, protocol, steady_clock());
  Samples samples = measure_batches(task, protocol, batch_clock());
  gpu_ = monitor_->end();
  return samples;
}

Comparison DeviceTiming::compare(const Task& ours, const Task& peer, const Protocol& protocol) {
  if (!queue_) return bench::compare(ours, peer, protocol, steady_clock());
  Comparison comparison = compare_batches(ours, peer, protocol, batch_clock());
  gpu_ = monitor_->end();
  return comparison;
}

}  // namespace octet::bench
