// One row of `octet bench quantize`: what a cast came to.
#pragma once

#include "csv.hpp"

#include "bench/quantize_workload.hpp"

#include <memory>
#include <optional>
#include <string>

namespace octet::tool {

struct QuantizeRow {
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

  double seconds() const { return times->ours.median_seconds(0); }
  double copy_seconds() const { return times->peer.median_seconds(0); }
  double gigabytes_per_second(double seconds) const {
    return static_cast<double>(bytes) / seconds / 1e9;
  }
};

CsvRow quantize_header();
CsvRow quantize_fields(const QuantizeRow& row, std::size_t test_id);
CsvRow quantize_table_header();
CsvRow quantize_table_fields(const QuantizeRow& row);

}  // namespace octet::tool
