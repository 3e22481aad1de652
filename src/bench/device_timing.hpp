// The timing protocol of a device: the steady clock on the CPU; events in batches, with the GPU
// watched while it is timed, on CUDA.
#pragma once

#include "bench/batch_timing.hpp"
#include "bench/device_queue.hpp"
#include "bench/gpu_monitor.hpp"

#include <memory>

namespace octet::bench {

class DeviceTiming {
 public:
  explicit DeviceTiming(Device device);

  void* stream() const { return queue_ ? queue_->stream() : nullptr; }
  Samples measure(const Task& task, const Protocol& protocol);
  Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol);
  // Of the last call of either; nothing on the CPU.
  const std::optional<GpuReading>& gpu() const { return gpu_; }

 private:
  BatchClock batch_clock();

  std::unique_ptr<DeviceQueue> queue_;  // null on the CPU
  std::unique_ptr<GpuMonitor> monitor_;
  std::optional<GpuReading> gpu_;
};

}  // namespace octet::bench
