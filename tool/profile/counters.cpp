#include "tool/profile/counters.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace octet::tool {
namespace {

constexpr double kSectorBytes = 32;  // of the L1 and L2 caches

// "ns" and "nsecond", "Kbyte", "Mhz", "sector": a prefix before a base unit.
double base_units_of_word(std::string_view word) {
  using Scale = std::pair<std::string_view, double>;
  constexpr std::array<Scale, 3> kTimes{{{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}}};
  constexpr std::array<Scale, 4> kSizes{{{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}};
  for (const auto& [prefix, scale] : kTimes) {
    if (word == std::string(prefix) + "s" || word == std::string(prefix) + "second") return scale;
  }
  for (const auto& [prefix, scale] : kSizes) {
    for (const char* base : {"byte", "hz", "sector", "cycle", "inst"}) {
      if (word == std::string(prefix) + base) return scale;
    }
  }
  return 1;
}

}  // namespace

// The names are those of Nsight Compute 2025 for sm_90. wgmma counts in the tensor pipe. Some
// versions lack dram__throughput or gpu__dram_throughput; reads and writes share one bus, so the
// sum of their shares is the same. A spill is a load or store of local memory; so is a stack.
const std::vector<Counter>& counters() {
  static const std::vector<Counter> all{
      {"Duration (us)", "us", {{"gpu__time_duration.sum"}}, 1e6, false},
      {"Tensor Pipe (%)",
       "tensor %",
       {{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"}},
       1,
       true},
      {"Issue Slots (%)",
       "issue %",
       {{"smsp__issue_active.avg.pct_of_peak_sustained_active"}},
       1,
       true},
      {"L2 (%)", "L2 %", {{"lts__throughput.avg.pct_of_peak_sustained_elapsed"}}, 1, true},
      {"L2 Hits (%)", "L2 hits %", {{"lts__t_sector_hit_rate.pct"}}, 1, true},
      {"Memory (%)",
       "memory %",
       {{"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"},
        {"dram__throughput.avg.pct_of_peak_sustained_elapsed"},
        {"dram__bytes_read.sum.pct_of_peak_sustained_elapsed",
         "dram__bytes_write.sum.pct_of_peak_sustained_elapsed"}},
       1,
       true},
      {"Memory (TB/s)",
       "TB/s",
       {{"dram__bytes_read.sum.per_second", "dram__bytes_write.sum.per_second"},
        {"dram__bytes.sum.per_second"}},
       1e-12,
       false},
      {"SM Clock (GHz)",
       "GHz",
       {{"smsp__cycles_elapsed.avg.per_second"}, {"gpc__cycles_elapsed.avg.per_second"}},
       1e-9,
       false},
      {"Registers", "registers", {{"launch__registers_per_thread"}}, 1, false},
      {"Spills (bytes)",
       "spills B",
       {{"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
         "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"}},
       kSectorBytes,
       false},
  };
  return all;
}

std::vector<std::string> all_metrics() {
  std::vector<std::string> names;
  for (const Counter& counter : counters()) {
    for (const auto& way : counter.ways) names.insert(names.end(), way.begin(), way.end());
  }
  return names;
}

std::vector<double> counter_values(const Metrics& metrics) {
  std::vector<double> values;
  for (const Counter& counter : counters()) {
    double value = std::numeric_limits<double>::quiet_NaN();
    for (const auto& way : counter.ways) {
      const auto is_there = [&](const std::string& name) { return metrics.count(name) > 0; };
      if (!std::all_of(way.begin(), way.end(), is_there)) continue;
      value = 0;
      for (const std::string& name : way) value += metrics.at(name) * counter.per_base;
      break;
    }
    values.push_back(value);
  }
  return values;
}

double base_units(std::string_view unit) {
  const std::size_t slash = unit.find('/');
  if (slash == std::string_view::npos) return base_units_of_word(unit);
  return base_units_of_word(unit.substr(0, slash)) / base_units_of_word(unit.substr(slash + 1));
}

}  // namespace octet::tool
