#include "bench/timing/statistics.hpp"

#include <octet/bench/timing.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet::bench {
namespace {

// The value below which `fraction` of the sorted samples lie, interpolated between neighbours.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  return quantile(samples, 0.5);
}

double spread(std::vector<double> samples) {
  if (samples.size() < 2) return 0;
  std::sort(samples.begin(), samples.end());
  const double middle = quantile(samples, 0.5);
  if (middle <= 0) return 0;
  return (quantile(samples, 0.75) - quantile(samples, 0.25)) / middle;
}

double geometric_mean(const std::vector<double>& samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const double sample : samples) sum += std::log(sample);
  return std::exp(sum / static_cast<double>(samples.size()));
}

// If the iterations do not divide evenly, a round has one call more than its share; every round
// also has one untimed call.
std::int64_t most_calls(const Protocol& protocol) {
  const std::int64_t once = std::int64_t{std::max(protocol.warmup, 1)} + protocol.iterations +
                            2 * std::int64_t{std::max(protocol.rounds, 1)};
  return 2 * once;
}

double Samples::median_seconds(std::size_t part) const { return median(parts.at(part)); }

double Samples::spread() const {
  std::vector<double> whole(parts.empty() ? 0 : parts[0].size(), 0);
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += part[i];
  }
  return bench::spread(whole);
}

bool Samples::noisy() const { return spread() > kNoisySpread; }

std::string Samples::note() const {
  std::string result;
  const auto add = [&](bool holds, const char* word) {
    if (holds) result += (result.empty() ? "" : "; ") + std::string(word);
  };
  add(cold, "cold");
  add(noisy(), "noisy");
  add(repeated, "repeated");
  return result;
}

}  // namespace octet::bench
