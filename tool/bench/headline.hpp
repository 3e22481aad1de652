// What runs where: the lines at the start of `octet bench` and `octet check`.
#pragma once

#include "tool/options/timing_options.hpp"

#include <octet/device.hpp>

#include <string>
#include <vector>

namespace octet::tool {

struct PlannedRun {
  Device device;
  std::string implementation;
};

// "octet 0.1.0 (dd29ac3a9b8e) · cpu: AMD EPYC, 2 threads, AVX-512 · gemm=cpu_simd": every device
// and implementation of the cases, each once.
std::string machine_headline(const std::vector<PlannedRun>& cases, int threads);
// "rows: build/x.csv · history: off"
std::string output_headline(const TimingOptions& timing);

}  // namespace octet::tool
