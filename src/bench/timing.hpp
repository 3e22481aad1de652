// The timing protocol: warm-ups, then iterations back to back until their number or their time is
// reached. Two contestants take turns in one process, and their ratio is the median over the turns,
// so that a change of clock or load meets both.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace octet::bench {

// Time as the protocol sees it; tests bring their own.
struct Clock {
  std::function<double()> seconds;  // never goes back
  std::function<void(double)> sleep_seconds;
};
Clock steady_clock();

struct Protocol {
  int warmup = 20;
  int iterations = 100;
  double seconds = 1;        // of the timed iterations; warm-ups take a quarter of it at most
  int least_iterations = 3;  // whatever the time
  int rounds = 5;            // turns of two contestants
  // Before a turn: threads of the other contestant that still spin after their work fall asleep
  // (OpenBLAS's do so within 2^26 cycles, some 25 ms).
  double settle_seconds = 0.05;
};

// One iteration calls the parts in turn and times each. The argument counts up from 0 over warm-ups
// and iterations, so that a part can rotate its inputs.
using Part = std::function<void(std::int64_t)>;
using Task = std::vector<Part>;

struct Samples {
  std::vector<std::vector<double>> parts;  // [part][iteration or batch], seconds of one call
  int warmup = 0;                          // calls before the first sample
  int timed_calls = 0;                     // as many as samples, or more where batches are timed

  int iterations() const { return timed_calls; }
  double median_seconds(std::size_t part) const;
  // Of whole iterations, or of batches of them.
  double spread() const;
};

Samples measure(const Task& task, const Protocol& protocol, const Clock& clock);

struct Comparison {
  Samples ours;
  Samples peer;
  std::vector<double> part_ratios;  // peer's time over ours: above 1 we are faster
  double ratio = 0;                 // of whole iterations
};

// Both tasks have the same number of parts.
Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol,
                   const Clock& clock);

}  // namespace octet::bench
