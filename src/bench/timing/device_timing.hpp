// What DeviceTiming of octet/bench/timing.hpp times with: the steady clock on the CPU; events in
// batches, with the GPU watched while it is timed, on CUDA.
#pragma once

#include "bench/timing/batch_timing.hpp"
#include "bench/timing/cache_flush.hpp"
#include "bench/timing/device_queue.hpp"
#include "bench/timing/gpu_monitor.hpp"

namespace octet::bench {

struct DeviceTiming::Instruments {
  Device device;
  std::unique_ptr<DeviceQueue> queue{};  // null on the CPU
  std::unique_ptr<GpuMonitor> monitor{};
  std::unique_ptr<CacheFlush> flush{};  // from the first cold protocol on

  Clock clock();
  BatchClock batch_clock();
  // Calls one of the two with the number of the first call and the clock to use.
  template <class OnCpu, class OnDevice>
  auto time(const Protocol& protocol, const OnCpu& on_cpu, const OnDevice& on_device);
};

}  // namespace octet::bench
