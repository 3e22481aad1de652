#include "bench/workloads/copy.hpp"
#include "core/message.hpp"

#include <octet/bench/metrics.hpp>

namespace octet::bench {

double gemm_tflops(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds /
         1e12;
}

double gigabytes_per_second(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9;
}

Comparison compare_with_copy(DeviceTiming& timing, const Part& kernel, std::size_t bytes,
                             const Protocol& protocol) {
  if (bytes < 2) refuse_argument("compare_with_copy: bytes must be at least 2, got ", bytes);
  const Copies copies(bytes / 2, timing.device(), timing.stream(), most_calls(protocol));
  return timing.compare({kernel}, {[&](std::int64_t call) { copies.copy(call); }}, protocol);
}

}  // namespace octet::bench
