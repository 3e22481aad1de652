#include "bench/timing/host.hpp"

#include <algorithm>
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

}  // namespace

std::string cpu_model() {
  const auto models = proc_values("/proc/cpuinfo", "model name");
  return models.empty() ? "unknown" : models.front();
}

double cpu_clock_mhz() {
  const auto clocks = proc_values("/proc/cpuinfo", "cpu MHz");
  double sum = 0;
  for (const std::string& clock : clocks) sum += std::strtod(clock.c_str(), nullptr);
  return clocks.empty() ? 0 : sum / static_cast<double>(clocks.size());
}

std::size_t memory_bytes() {
  const auto total = proc_values("/proc/meminfo", "MemTotal");
  return total.empty() ? 0 : std::strtoull(total.front().c_str(), nullptr, 10) << 10;
}

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

}  // namespace octet::bench
