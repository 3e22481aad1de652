// What is said of the samples of one timing.
#include "bench/timing/statistics.hpp"

#include <octet/bench/timing.hpp>

#include <algorithm>

namespace octet::bench {

// A round has a call more than its share of the iterations where they do not divide, and one that is
// not timed.
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
