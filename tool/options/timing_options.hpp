// How long a benchmark takes, which share of its cases it runs, and where its rows go: the same
// options for every operator.
#pragma once

#include "tool/options/options.hpp"

#include "bench/timing/timing.hpp"

#include <string>

namespace octet::tool {

struct TimingOptions {
  std::int64_t warmup = 20;
  std::optional<std::int64_t> iterations;  // 100, or what the time allows
  std::optional<double> seconds_per_case;
  bool cold = false;
  std::optional<double> max_seconds;
  std::int64_t num_shards = 1;
  std::int64_t shard_id = 0;
  std::string output;
  std::string json;
  bool fresh = false;  // measure again what `output` has already
};

void add_timing_options(CLI::App& app, TimingOptions& options);
// Throws UsageError where the shard is not one of them or -o and --json would write one file.
void check_timing_options(const TimingOptions& options);
// Cases are dealt to the shards in turn, so that each has its share of the big ones.
bool in_shard(const TimingOptions& options, std::size_t index);

// Where only --iters is given, it is obeyed whatever the time. Where neither is, a case takes
// `cpu_seconds` on the CPU and its 100 iterations on a GPU.
bench::Protocol make_protocol(const TimingOptions& options, Device device, double cpu_seconds);

// " --warmup ... --iters ... --seconds-per-case ... --cold", where they were given.
std::string timing_arguments(const TimingOptions& options);

// Stops a run that has taken its --max-seconds.
class RunClock {
 public:
  explicit RunClock(std::optional<double> max_seconds);
  bool is_over() const { return seconds_left() && *seconds_left() <= 0; }
  std::optional<double> seconds_left() const;  // none without --max-seconds

 private:
  bench::Clock clock_;
  double start_;
  std::optional<double> max_seconds_;
};

}  // namespace octet::tool
