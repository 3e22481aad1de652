// The counters of a kernel that octet profile shows, and the metrics of Nsight Compute they are
// read from. A counter that a GPU or a version of ncu does not have is NaN.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct Counter {
  const char* column;  // of the CSV: "Tensor Pipe (%)"
  const char* label;   // of the table: "tensor %"
  // The ways to read it; the first whose metrics are all there counts, and their sum is the value.
  std::vector<std::vector<std::string>> ways;
  double per_base;  // how many of its unit one base unit is: 1e6 for us
  bool is_share;    // in percent: two are compared in points
};

// In the order of the table.
const std::vector<Counter>& counters();

// Every metric of every way, each once.
std::vector<std::string> all_metrics();

// The values of one launch by metric, in base units: seconds, hertz, bytes, percent.
using Metrics = std::map<std::string, double>;
// One value per counter, in its unit.
std::vector<double> counter_values(const Metrics& metrics);

// The base units in one `unit` as ncu prints it: 1e-9 for "ns", 1e9 for "cycle/nsecond", 1 for "%".
double base_units(std::string_view unit);

}  // namespace octet::tool
