// The timing protocol on a device: calls are queued back to back, so that a single one has no time
// of its own. A sample is the time of a batch over its calls; the iterations are dealt over at
// least five batches (where there are as many), and median and spread are over the batches.
//
// One call goes ahead of every batch untimed: while the device works on it the host is already
// queueing the batch, so that the time to the first launch is not counted. Cold, a sample is one
// call, and the flush of the cache goes ahead of it.
#pragma once

#include "bench/timing/timing.hpp"

namespace octet::bench {

// Time as the protocol sees it on a device; DeviceQueue has it, and tests bring their own.
struct BatchClock {
  // Queues the first, then the second between two events, and waits; the seconds between them.
  std::function<double(const std::function<void()>& lead_in, const std::function<void()>& timed)>
      seconds;
  // Called once, after the warm-ups.
  std::function<void()> timing_begins = [] {};
  std::function<void()> flush_cache = [] {};  // queues it; of a cold protocol
};

// `iterations` dealt over `rounds` batches, or over fewer where there are fewer iterations.
std::vector<int> batch_sizes(int iterations, int rounds);

// Protocol::least_iterations and settle_seconds say nothing here: every round has a call at least,
// and nothing spins between them.
Samples measure_batches(const Task& task, const Protocol& protocol, const BatchClock& clock);
// One turn of each contestant a round.
Comparison compare_batches(const Task& ours, const Task& peer, const Protocol& protocol,
                           const BatchClock& clock);

}  // namespace octet::bench
