#include "bench/timing/gpu_monitor.hpp"

#include "bench/timing/statistics.hpp"

#include <algorithm>
#include <chrono>

namespace octet::bench {

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
  // The bits of nvmlClocksThrottleReason*; an idle GPU (bit 0) is not held back.
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

}  // namespace octet::bench
