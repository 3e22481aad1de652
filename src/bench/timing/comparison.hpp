// Two contestants over rounds: what both timing protocols make of their times.
#pragma once

#include "bench/timing/statistics.hpp"
#include "bench/timing/timing.hpp"

namespace octet::bench {

inline double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// Of the times of each part.
inline std::vector<double> medians(const std::vector<std::vector<double>>& parts) {
  std::vector<double> result;
  result.reserve(parts.size());
  for (const auto& part : parts) result.push_back(median(part));
  return result;
}

// Collects one ratio per round and part, peer's time over ours.
class RoundRatios {
 public:
  explicit RoundRatios(std::size_t parts) : parts_(parts) {}

  void add(const std::vector<double>& our_times, const std::vector<double>& peer_times) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      parts_[part].push_back(peer_times[part] / our_times[part]);
    }
    wholes_.push_back(total(peer_times) / total(our_times));
  }

  Comparison comparison(const Samples& ours, const Samples& peer) const {
    return {ours, peer, medians(parts_), median(wholes_)};
  }

 private:
  std::vector<std::vector<double>> parts_;  // [part][round]
  std::vector<double> wholes_;
};

// One round. Who begins alternates, so that neither always runs on the warmer machine.
template <class OurTurn, class PeerTurn>
void take_turns(int round, OurTurn our_turn, PeerTurn peer_turn, RoundRatios& ratios) {
  const bool ours_first = round % 2 == 0;
  std::vector<double> our_times;
  if (ours_first) our_times = our_turn();
  const std::vector<double> peer_times = peer_turn();
  if (!ours_first) our_times = our_turn();
  ratios.add(our_times, peer_times);
}

}  // namespace octet::bench
