// One row of `octet bench gemm`: what a case came to.
#pragma once

#include "tool/operators/layer.hpp"

#include "bench/report/record.hpp"
#include "bench/timing/gpu_monitor.hpp"
#include "bench/timing/timing.hpp"

#include <limits>
#include <optional>
#include <string>

namespace octet::tool {

struct GemmRow {
  Layer layer;
  std::string check = "ERROR";  // PASS, FAIL or ERROR
  std::string note;             // why not PASS, or how it was timed: "cold; noisy"
  std::string implementation;
  std::string configuration;
  std::string command;        // repeats the row
  std::string check_command;  // repeats its gates
  GateReport gates;
  double f16_snr_db = std::numeric_limits<double>::quiet_NaN();
  std::optional<bench::Samples> times;  // forward and backward; of a PASS alone
  std::optional<bench::Comparison> comparison;
  std::string baseline;
  std::optional<bench::GpuReading> gpu;  // while it was timed

  double forward_ms() const { return times->median_seconds(0) * 1e3; }
  double backward_ms() const { return times->median_seconds(1) * 1e3; }
  double step_ms() const { return forward_ms() + backward_ms(); }
  // products: 2 MNK each.
  double tflops(int products, double ms) const;
  double step_tflops() const { return tflops(3, step_ms()); }
};

bench::Row gemm_header(bool with_baseline);
bench::Row gemm_fields(const GemmRow& row, bool with_baseline);

// "31.62", enough digits for every rate; empty for NaN.
std::string number(double value);
// "GPU" and "Platform" of a device: {"cuda", "NVIDIA H200"} or {"cpu", "none"}.
std::string platform(Device device);
std::string gpu_name(Device device);
// Where a row comes from: commit, device sources, CPU, and what the clocks did while it was timed.
bench::Row machine_fields(const std::string& op, Device device,
                          const std::optional<bench::GpuReading>& gpu);

}  // namespace octet::tool
