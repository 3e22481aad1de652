// Work queued on a CUDA device, and the time it takes there. cuda_device_queue.cpp implements it where
// the build has CUDA; cuda_absent.cpp, which refuses, where it has not.
#pragma once

#include <octet/device.hpp>

#include <cstddef>
#include <functional>
#include <string>

namespace octet::bench {

using Launches = std::function<void()>;

// The caller's stream, or one of its own, and two events. Its own waits for the default stream,
// where memory is cleared and random numbers are made.
class DeviceQueue {
 public:
  explicit DeviceQueue(Device device, void* stream = nullptr);
  ~DeviceQueue();  // NOLINT(performance-trivially-destructible): not where the build has CUDA
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  void* stream() const { return stream_; }
  // Waits for the device, queues `lead_in`, then `timed` between two events, and waits again. The
  // seconds between the events.
  double seconds(const Launches& lead_in, const Launches& timed);

 private:
  Device device_;
  void* stream_ = nullptr;
  [[maybe_unused]] bool owns_stream_ = false;
  [[maybe_unused]] void* start_ = nullptr;  // a build without CUDA has no events
  [[maybe_unused]] void* stop_ = nullptr;
};

// Within one device, queued on a stream.
void queue_copy(void* to, const void* from, std::size_t bytes, Device device, void* stream);
// Zeroes, queued on a stream.
void queue_clear(void* memory, std::size_t bytes, Device device, void* stream);
// What could still be allocated.
std::size_t free_cuda_bytes(Device device);
// "0000:19:00.0", by which NVML knows the device.
std::string pci_bus_id(Device device);
// What an empty CUDA program does.
void create_context(Device device);

}  // namespace octet::bench
