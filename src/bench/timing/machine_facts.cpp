#include "bench/timing/machine_facts.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/timing/timing.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

namespace octet::bench {
namespace {

// The values of every "name : value" line of a /proc file.
std::vector<std::string> proc_values(const char* path, const std::string& name) {
  std::vector<std::string> values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    if (line.find_last_not_of(" \t", colon - 1) + 1 != name.size()) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) values.push_back(line.substr(start));
  }
  return values;
}

// Of a line "MemTotal:  24608400 kB"; 0 if it is not there.
std::size_t meminfo_bytes(const std::string& name) {
  const auto values = proc_values("/proc/meminfo", name);
  return values.empty() ? 0 : std::strtoull(values.front().c_str(), nullptr, 10) << 10;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Parses "48K" and "36M", as /sys writes them.
std::size_t parse_cache_size(const std::string& text) {
  char* end = nullptr;
  const std::size_t number = std::strtoull(text.c_str(), &end, 10);
  if (*end == 'K') return number << 10;
  if (*end == 'M') return number << 20;
  return number;
}

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

double cpu_clock_mhz() {
  const auto clocks = proc_values("/proc/cpuinfo", "cpu MHz");
  double sum = 0;
  for (const std::string& clock : clocks) sum += std::strtod(clock.c_str(), nullptr);
  return clocks.empty() ? 0 : sum / static_cast<double>(clocks.size());
}

std::size_t memory_bytes() { return meminfo_bytes("MemTotal"); }
std::size_t available_memory_bytes() { return meminfo_bytes("MemAvailable"); }

std::vector<Cache> cpu_caches() {
  std::vector<Cache> caches;
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = first_line(folder + "level");
    if (level.empty()) return caches;
    caches.push_back({std::atoi(level.c_str()), first_line(folder + "type"),
                      parse_cache_size(first_line(folder + "size"))});
  }
}

std::size_t last_level_cache_bytes() {
  std::size_t bytes = 0;
  for (const Cache& cache : cpu_caches()) bytes = std::max(bytes, cache.bytes);
  return bytes;
}

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
