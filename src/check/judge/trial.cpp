#include "check/judge/trial.hpp"

#include <limits>

namespace octet {

bool GateReport::pass() const {
  for (const GateResult& result : results) {
    if (!result.pass) return false;
  }
  return !results.empty();
}

double GateReport::snr_db(const std::string& gate, const std::string& tensor) const {
  for (const GateResult& result : results) {
    if (result.gate == gate && result.tensor == tensor) return result.snr_db;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

JudgeOptions judge_options(const DataOptions& options, Device device) {
  JudgeOptions result;
  result.zero_mean = options.distribution != Distribution::one_signed;
  result.device = device.type;
  if (device.type == DeviceType::cuda) result.sample_beyond = kSampleBeyondOnCuda;
  result.seed = options.seed;
  result.threads = options.threads;
  return result;
}

Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options, Device device) {
  Tensor matrix(dtype, {rows, cols}, device);
  fill_random(matrix, options.distribution, {options.seed, stream}, options.threads);
  return matrix;
}

void add(GateReport& report, std::vector<GateResult> results) {
  for (GateResult& result : results) report.results.push_back(std::move(result));
}

}  // namespace octet
