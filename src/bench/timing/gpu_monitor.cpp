#include "bench/timing/gpu_monitor.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/timing/statistics.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace octet::bench {
namespace {

// The part of nvml.h that is used; every function returns 0 on success.
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

// Stays loaded for the whole process, as the CUDA driver does.
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

std::optional<GpuReading> summarize(const std::vector<GpuReading>& readings) {
  if (readings.empty()) return std::nullopt;
  GpuReading all;
  std::vector<double> clocks;
  for (const GpuReading& reading : readings) {
    clocks.push_back(reading.clock_mhz);
    all.power_w += reading.power_w / static_cast<double>(readings.size());
    all.temperature_c = std::max(all.temperature_c, reading.temperature_c);
    all.throttle |= reading.throttle;
  }
  all.clock_mhz = median(clocks);
  return all;
}

std::string throttle_text(std::uint64_t reasons) {
  struct Reason {
    std::uint64_t bit;
    const char* name;
  };
  // The bits of nvmlClocksThrottleReason*; an idle GPU (bit 0) is not throttled.
  constexpr Reason kReasons[] = {{0x02, "clocks set"},
                                 {0x04, "power cap"},
                                 {0x08, "slowdown (hardware)"},
                                 {0x10, "sync boost"},
                                 {0x20, "thermal slowdown (software)"},
                                 {0x40, "thermal slowdown (hardware)"},
                                 {0x80, "power brake"},
                                 {0x100, "display clocks"}};
  std::string result;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) == 0) continue;
    result += (result.empty() ? "" : " + ") + std::string(reason.name);
  }
  return result.empty() ? "none" : result;
}

GpuMonitor::GpuMonitor(ReadGpu read, double interval_seconds)
    : read_(std::move(read)), interval_seconds_(interval_seconds) {}

GpuMonitor::~GpuMonitor() { end(); }

void GpuMonitor::begin() {
  end();
  readings_.clear();
  stop_ = false;
  thread_ = std::thread([this] { watch(); });
}

std::optional<GpuReading> GpuMonitor::end() {
  if (!thread_.joinable()) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_asked_.notify_one();
  thread_.join();
  return summarize(readings_);
}

void GpuMonitor::watch() {
  const auto interval = std::chrono::duration<double>(interval_seconds_);
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    take_reading();
    lock.lock();
  } while (!stop_asked_.wait_for(lock, interval, [this] { return stop_; }));
  take_reading();
}

void GpuMonitor::take_reading() {
  if (const auto reading = read_()) readings_.push_back(*reading);
}

ReadGpu nvml_reader(Device device) {
  const ReadGpu nothing = [] { return std::optional<GpuReading>(); };
  if (device.type != DeviceType::cuda || !library().loaded) return nothing;
  NvmlDevice handle = nullptr;
  if (library().by_bus_id(pci_bus_id(device).c_str(), &handle) != 0) return nothing;
  return [handle] { return read(handle); };
}

}  // namespace octet::bench
