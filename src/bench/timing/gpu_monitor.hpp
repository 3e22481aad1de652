// The state of a GPU while it is timed: clock, power, temperature, and throttle reasons.
#pragma once

#include <octet/bench/timing.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace octet::bench {

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
