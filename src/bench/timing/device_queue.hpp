// Work queued on a CUDA device, and the time it takes there. device_queue.cpp implements it if
// the build has CUDA; if not, cuda_absent.cpp refuses.
#pragma once

#include <octet/device.hpp>

#include <cstddef>
#include <functional>
#include <string>

namespace octet::bench {

using Launches = std::function<void()>;

// The caller's stream, or one of its own, and two events. A stream of its own waits for the default
// stream, where memory is cleared and random numbers are made.
class DeviceQueue {
 public:
  explicit DeviceQueue(Device device, void* stream = nullptr);
  ~DeviceQueue();  // NOLINT(performance-trivially-destructible): not if the build has CUDA
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  void* stream() const { return stream_; }
  // Waits for the device, queues `lead_in`, then `timed` between two events, and waits again.
  // Returns the seconds between the events.
  double seconds(const Launches& lead_in, const Launches& timed);

 private:
  Device device_;
  void* stream_ = nullptr;
  [[maybe_unused]] bool owns_stream_ = false;
  [[maybe_unused]] void* start_ = nullptr;  // a build without CUDA has no events
  [[maybe_unused]] void* stop_ = nullptr;
};

// Queues a copy within one device.
void queue_copy(void* to, const void* from, std::size_t bytes, Device device, void* stream);
// Queues a zero-fill.
void queue_clear(void* memory, std::size_t bytes, Device device, void* stream);
// Bytes that could still be allocated.
std::size_t free_cuda_bytes(Device device);
// "0000:19:00.0", by which NVML knows the device.
std::string pci_bus_id(Device device);
// Does what an empty CUDA program does.
void create_context(Device device);
// A profiler that waits for the first, as ncu --profile-from-start off does, records what is queued
// between the two. Both wait for the device. On the CPU they do nothing.
void begin_recording(Device device);
void end_recording(Device device);

}  // namespace octet::bench
