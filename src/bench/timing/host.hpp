// What a result says of the machine it was measured on, from /proc and /sys.
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

std::string cpu_model();     // "unknown" where the system does not say
double cpu_clock_mhz();      // the mean over the cores just now; 0 where the system does not say
std::size_t memory_bytes();  // 0 where the system does not say
std::vector<Cache> cpu_caches();
std::size_t last_level_cache_bytes();

}  // namespace octet::bench
