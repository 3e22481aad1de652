// The facts about the host that a result reports, from /proc and /sys.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace octet::bench {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  std::size_t bytes = 0;
};

std::string cpu_model();     // "unknown" if the system does not report it
double cpu_clock_mhz();      // the mean over the cores now; 0 if not reported
std::size_t memory_bytes();  // 0 if not reported
std::vector<Cache> cpu_caches();
std::size_t last_level_cache_bytes();

}  // namespace octet::bench
