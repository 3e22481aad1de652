// A build without CUDA: every request is refused with an error that says so.
#include "bench/timing/device_queue.hpp"

#include "device/cuda_runtime.hpp"

namespace octet::bench {
namespace {

void refuse(Device device) { (void)cuda::properties(device.index); }

}  // namespace

DeviceQueue::DeviceQueue(Device device, void* stream) : device_(device), stream_(stream) {
  refuse(device);
}
DeviceQueue::~DeviceQueue() = default;

double DeviceQueue::seconds(const Launches& /*lead_in*/, const Launches& /*timed*/) {
  refuse(device_);
  return 0;
}

void queue_copy(void*, const void*, std::size_t, Device device, void*) { refuse(device); }

void queue_clear(void*, std::size_t, Device device, void*) { refuse(device); }

std::size_t free_cuda_bytes(Device device) {
  refuse(device);
  return 0;
}

std::string pci_bus_id(Device device) {
  refuse(device);
  return {};
}

void create_context(Device device) { refuse(device); }

void begin_recording(Device /*device*/) {}
void end_recording(Device /*device*/) {}

}  // namespace octet::bench
