// The instruments of DeviceTiming of octet/bench/timing.hpp: the steady clock on the CPU; on CUDA
// events around batches, with the GPU monitored while it is timed.
#pragma once

#include "bench/timing/device_queue.hpp"
#include "bench/timing/machine_facts.hpp"
#include "bench/timing/timing.hpp"

#include <octet/buffer.hpp>

namespace octet::bench {

// Empties the last-level cache of a device by writing a buffer twice its size.
class CacheFlush {
 public:
  // Queued on `stream` if the device is a CUDA device.
  CacheFlush(Device device, void* stream);

  void operator()() const;
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
  void* stream_;
};

struct DeviceTiming::Instruments {
  Device device;
  std::unique_ptr<DeviceQueue> queue{};  // null on the CPU
  std::unique_ptr<GpuMonitor> monitor{};
  std::unique_ptr<CacheFlush> flush{};  // made for the first cold protocol
  std::function<void()> timing_begins = [] {};

  Clock clock();
  BatchClock batch_clock();
  // Calls one of the two with the number of the first call and the clock to use.
  template <class OnCpu, class OnDevice>
  auto time(const Protocol& protocol, const OnCpu& on_cpu, const OnDevice& on_device);
};

}  // namespace octet::bench
