// How long a benchmark takes, and where its rows go: the same options for every operator.
#pragma once

#include "options.hpp"

#include "bench/timing.hpp"

#include <string>

namespace octet::tool {

struct TimingOptions {
  std::int64_t warmup = 20;
  std::optional<std::int64_t> iterations;  // 100, or what the time allows
  std::optional<double> seconds_per_case;
  std::optional<double> max_seconds;
  std::string output;
};

void add_timing_options(CLI::App& app, TimingOptions& options);

// Where --iters alone is given, it is obeyed whatever the time. Where neither is, a case takes
// `default_seconds`.
bench::Protocol make_protocol(const TimingOptions& options, double default_seconds);

// " --warmup ... --iters ... --seconds-per-case ...", where they were given.
std::string timing_arguments(const TimingOptions& options);

// Stops a run that has taken its --max-seconds.
class RunClock {
 public:
  explicit RunClock(std::optional<double> max_seconds);
  bool is_over() const;

 private:
  bench::Clock clock_;
  double start_;
  std::optional<double> max_seconds_;
};

}  // namespace octet::tool
