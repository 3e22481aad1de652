// A noisy measurement is made once more: a neighbour who came and went costs a second try, not a
// result.
#pragma once

#include <octet/bench/timing.hpp>

namespace octet::bench {

inline Samples& samples_of(Samples& samples) { return samples; }
inline Samples& samples_of(Comparison& comparison) { return comparison.ours; }

// The same task, its calls numbered from `first`: the second try goes on through the inputs.
inline Task counting_from(std::int64_t first, const Task& task) {
  Task result;
  for (const Part& part : task) {
    result.push_back([&part, first](std::int64_t call) { part(first + call); });
  }
  return result;
}

// Calls measure(first_call), which returns Samples or a Comparison; again where they are noisy.
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
