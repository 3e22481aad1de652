// Streams, events and free memory through the CUDA runtime.
#include "bench/timing/device_queue.hpp"

#include "device/cuda/launch.hpp"

#include <cuda_profiler_api.h>

namespace octet::bench {
namespace {

using cuda::check;
using cuda::DeviceScope;

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

void* make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

}  // namespace

DeviceQueue::DeviceQueue(Device device, void* stream)
    : device_(device), stream_(stream), owns_stream_(stream == nullptr) {
  const DeviceScope scope(device.index);
  if (owns_stream_) {
    cudaStream_t made = nullptr;
    check(cudaStreamCreate(&made), "cudaStreamCreate");
    stream_ = made;
  }
  start_ = make_event();
  stop_ = make_event();
}

DeviceQueue::~DeviceQueue() {
  (void)cudaEventDestroy(event_of(start_));
  (void)cudaEventDestroy(event_of(stop_));
  if (owns_stream_) (void)cudaStreamDestroy(stream_of(stream_));
}

double DeviceQueue::seconds(const Launches& lead_in, const Launches& timed) {
  const DeviceScope scope(device_.index);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  lead_in();
  check(cudaEventRecord(event_of(start_), stream_of(stream_)), "cudaEventRecord");
  timed();
  check(cudaEventRecord(event_of(stop_), stream_of(stream_)), "cudaEventRecord");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  float elapsed_ms = 0;
  check(cudaEventElapsedTime(&elapsed_ms, event_of(start_), event_of(stop_)),
        "cudaEventElapsedTime");
  return static_cast<double>(elapsed_ms) * 1e-3;
}

void queue_copy(void* to, const void* from, std::size_t bytes, Device device, void* stream) {
  const DeviceScope scope(device.index);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)),
        "cudaMemcpyAsync");
}

void queue_clear(void* memory, std::size_t bytes, Device device, void* stream) {
  const DeviceScope scope(device.index);
  check(cudaMemsetAsync(memory, 0, bytes, stream_of(stream)), "cudaMemsetAsync");
}

std::size_t free_cuda_bytes(Device device) {
  const DeviceScope scope(device.index);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return free_bytes;
}

std::string pci_bus_id(Device device) {
  char text[32] = "";
  check(cudaDeviceGetPCIBusId(text, sizeof(text), device.index), "cudaDeviceGetPCIBusId");
  return text;
}

void create_context(Device device) {
  const DeviceScope scope(device.index);
  check(cudaFree(nullptr), "cudaFree");
}

void begin_recording(Device device) {
  if (device.type != DeviceType::cuda) return;
  const DeviceScope scope(device.index);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaProfilerStart(), "cudaProfilerStart");
}

void end_recording(Device device) {
  if (device.type != DeviceType::cuda) return;
  const DeviceScope scope(device.index);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaProfilerStop(), "cudaProfilerStop");
}

}  // namespace octet::bench
