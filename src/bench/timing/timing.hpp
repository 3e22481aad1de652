// The timing protocol of octet/bench/timing.hpp, with any clock. On the CPU every call is timed. On
// a device calls are queued back to back, so that a single one has no time of its own: a sample is
// the time of a batch over its calls. The iterations are split into at least five batches (if there
// are as many), and median and spread are over the batches.
//
// One untimed call precedes every batch: while the device works on it the host is already queueing
// the batch, so that the latency of the first launch is not counted. In a cold protocol a sample is
// one call, and the cache flush precedes it.
#pragma once

#include <octet/bench/timing.hpp>

namespace octet::bench {

// Statistics of a list of samples.

// The middle value, or the mean of the two middle values of an even number. NaN if there are none.
double median(std::vector<double> samples);
// The interquartile range over the median: 0.02 means that half of the samples lie within 2 %.
// 0 for fewer than two samples.
double spread(std::vector<double> samples);
// NaN if there are none.
double geometric_mean(const std::vector<double>& samples);

// A number with a larger spread is not to be compared.
inline constexpr double kNoisySpread = 0.10;

// The CPU's clock as the protocol sees it; tests provide their own.
struct Clock {
  std::function<double()> seconds;  // never goes back
  std::function<void(double)> sleep_seconds;
  std::function<void()> flush_cache = [] {};    // of a cold protocol
  std::function<void()> timing_begins = [] {};  // called once, after the warm-ups
};
Clock steady_clock();

// The same on a device, implemented with DeviceQueue.
struct BatchClock {
  // Queues `lead_in`, then `timed` between two events, and waits. Returns the seconds between them.
  std::function<double(const std::function<void()>& lead_in, const std::function<void()>& timed)>
      seconds;
  // Called once, after the warm-ups.
  std::function<void()> timing_begins = [] {};
  std::function<void()> flush_cache = [] {};  // queues it; of a cold protocol
};

Samples measure(const Task& task, const Protocol& protocol, const Clock& clock);
// Both tasks must have the same number of parts.
Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol,
                   const Clock& clock);

// Protocol::least_iterations and settle_seconds have no effect here: every round has at least one
// call, and no thread spins between rounds.
Samples measure_batches(const Task& task, const Protocol& protocol, const BatchClock& clock);
// One turn of each contestant a round.
Comparison compare_batches(const Task& ours, const Task& peer, const Protocol& protocol,
                           const BatchClock& clock);
// `iterations` split over `rounds` batches, or over fewer if there are fewer iterations.
std::vector<int> batch_sizes(int iterations, int rounds);

inline Samples& samples_of(Samples& samples) { return samples; }
inline Samples& samples_of(Comparison& comparison) { return comparison.ours; }

// The same task with its calls numbered from `first`: a second try continues through the inputs.
Task counting_from(std::int64_t first, const Task& task);

// Calls measure(first_call), which returns Samples or a Comparison. If they are noisy it measures
// once more and keeps the quieter of both: a short disturbance costs a second try, not a result.
template <class Measure>
auto repeat_where_noisy(const Protocol& protocol, const Measure& measure) {
  auto first = measure(std::int64_t{0});
  if (!samples_of(first).noisy()) return first;
  auto second = measure(most_calls(protocol) / 2);
  const bool quieter = samples_of(second).spread() < samples_of(first).spread();
  auto kept = quieter ? std::move(second) : std::move(first);
  samples_of(kept).repeated = true;
  return kept;
}

}  // namespace octet::bench
