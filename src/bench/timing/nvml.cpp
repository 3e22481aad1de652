#include "bench/timing/nvml.hpp"

#include "bench/timing/device_queue.hpp"

#include <dlfcn.h>

namespace octet::bench {
namespace {

// What is used of nvml.h; every function returns 0 where it succeeds.
using NvmlDevice = void*;
constexpr unsigned kSmClock = 1;         // NVML_CLOCK_SM
constexpr unsigned kGpuTemperature = 0;  // NVML_TEMPERATURE_GPU

struct Nvml {
  int (*init)() = nullptr;
  int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, unsigned, unsigned*) = nullptr;        // MHz
  int (*power)(NvmlDevice, unsigned*) = nullptr;                  // milliwatts
  int (*temperature)(NvmlDevice, unsigned, unsigned*) = nullptr;  // degrees Celsius
  int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;
  bool loaded = false;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Nvml load() {
  Nvml nvml;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nvml;
  nvml.loaded =
      find(library, "nvmlInit_v2", nvml.init) &&
      find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus_id) &&
      find(library, "nvmlDeviceGetClockInfo", nvml.clock) &&
      find(library, "nvmlDeviceGetPowerUsage", nvml.power) &&
      find(library, "nvmlDeviceGetTemperature", nvml.temperature) &&
      (find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.throttle) ||
       find(library, "nvmlDeviceGetCurrentClocksEventReasons", nvml.throttle)) &&  // its new name
      nvml.init() == 0;
  return nvml;
}

// Kept for the whole process, as CUDA keeps its driver.
const Nvml& library() {
  static const Nvml nvml = load();
  return nvml;
}

std::optional<GpuReading> read(NvmlDevice device) {
  const Nvml& nvml = library();
  unsigned clock_mhz = 0;
  unsigned power_mw = 0;
  unsigned temperature_c = 0;
  unsigned long long reasons = 0;
  if (nvml.clock(device, kSmClock, &clock_mhz) != 0) return std::nullopt;
  if (nvml.power(device, &power_mw) != 0) return std::nullopt;
  if (nvml.temperature(device, kGpuTemperature, &temperature_c) != 0) return std::nullopt;
  if (nvml.throttle(device, &reasons) != 0) return std::nullopt;
  return GpuReading{static_cast<double>(clock_mhz), power_mw * 1e-3,
                    static_cast<double>(temperature_c), reasons};
}

}  // namespace

ReadGpu nvml_reader(Device device) {
  const ReadGpu nothing = [] { return std::optional<GpuReading>(); };
  if (device.type != DeviceType::cuda || !library().loaded) return nothing;
  NvmlDevice handle = nullptr;
  if (library().by_bus_id(pci_bus_id(device).c_str(), &handle) != 0) return nothing;
  return [handle] { return read(handle); };
}

}  // namespace octet::bench
