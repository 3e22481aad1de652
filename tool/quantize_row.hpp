// One row of `octet bench quantize`: what a cast came to.
#pragma once

#include "csv.hpp"

#include "bench/gpu_monitor.hpp"
#include "bench/quantize_workload.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

struct QuantizeRow {
  std::size_t test_id = 0;
  QuantizeProblem problem;
  std::unique_ptr<bench::QuantizeWorkload> workload;
  std::string check = "ERROR";
  std::string note;
  std::string arguments;         // after `octet bench` and `octet check`
  std::string timing_arguments;  // after them for `octet bench`
  bench::WorkloadOptions data;
  std::string implementation;
  std::string configuration;
  std::size_t bytes = 0;
  std::optional<bench::Comparison> times;  // ours: the cast; peer: the copy
  std::optional<bench::GpuReading> gpu;    // while they were timed

  double seconds() const { return times->ours.median_seconds(0); }
  double copy_seconds() const { return times->peer.median_seconds(0); }
  double gigabytes_per_second(double seconds) const {
    return static_cast<double>(bytes) / seconds / 1e9;
  }
};

CsvRow quantize_header();
CsvRow quantize_fields(const QuantizeRow& row);
// Prints the table, what failed with the command that repeats it (`repeats` has that of every
// case), the score and the counts. The exit status.
int print_quantize_summary(const std::vector<std::optional<CsvRow>>& rows,
                           const std::vector<std::string>& repeats);

}  // namespace octet::tool
