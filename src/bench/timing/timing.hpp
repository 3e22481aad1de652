// The timing protocol of octet/bench/timing.hpp on the CPU, with any clock.
#pragma once

#include <octet/bench/timing.hpp>

namespace octet::bench {

// Time as the protocol sees it; tests bring their own.
struct Clock {
  std::function<double()> seconds;  // never goes back
  std::function<void(double)> sleep_seconds;
  std::function<void()> flush_cache = [] {};  // of a cold protocol
};
Clock steady_clock();

Samples measure(const Task& task, const Protocol& protocol, const Clock& clock);
// Both tasks have the same number of parts.
Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol,
                   const Clock& clock);

}  // namespace octet::bench
