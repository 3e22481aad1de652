// The facts about a machine that a result reports. Of the host: its clock, memory and caches, from
// /proc and /sys. Of a GPU while it is timed: clock, power, temperature and throttle reasons,
// from NVML.
#pragma once

#include <octet/bench/timing.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace octet::bench {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  std::size_t bytes = 0;
};

double cpu_clock_mhz();      // the mean over the cores now; 0 if not reported
std::size_t memory_bytes();  // 0 if not reported
// What may still be allocated and written, as Linux estimates it; 0 if not reported.
std::size_t available_memory_bytes();
std::vector<Cache> cpu_caches();
std::size_t last_level_cache_bytes();

// Summary of all readings: the median clock, the mean power, the highest temperature, every reason
// seen. Nothing if there are no readings.
std::optional<GpuReading> summarize(const std::vector<GpuReading>& readings);
// "power cap", "power cap + thermal slowdown (software)"; "none".
std::string throttle_text(std::uint64_t reasons);

// One reading now; nothing if the system does not report it.
using ReadGpu = std::function<std::optional<GpuReading>()>;

// Reads a CUDA device through NVML, NVIDIA's management library, which is loaded on first use. If
// libnvidia-ml.so.1 is missing or does not know the device, every reading is empty: a result
// without clocks is still a result.
ReadGpu nvml_reader(Device device);

// Reads in a thread of its own from begin() to end(), at both ends and every `interval_seconds`.
class GpuMonitor {
 public:
  explicit GpuMonitor(ReadGpu read, double interval_seconds = 0.02);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  void begin();
  std::optional<GpuReading> end();

 private:
  void watch();
  void take_reading();

  ReadGpu read_;
  double interval_seconds_;
  std::vector<GpuReading> readings_;  // owned by the thread while it runs, by the caller after
  std::mutex mutex_;
  std::condition_variable stop_asked_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace octet::bench
