// Options of every benchmark: how long it takes, which shard of its cases it runs, and where its
// rows go.
#pragma once

#include "tool/options/options.hpp"

#include "bench/timing/timing.hpp"

#include <string>

namespace octet::tool {

inline constexpr const char* kCaseOptions = "Cases";  // the group of options that select cases

inline constexpr std::int64_t kIterations = 100;  // without --iters, or fewer if time is short
// The time budget of a case on the CPU, without --iters and --seconds-per-case.
inline constexpr double kCpuSeconds = 1;

struct TimingOptions {
  std::int64_t warmup = 20;
  std::optional<std::int64_t> iterations;
  std::optional<double> seconds_per_case;
  bool cold = false;
  std::optional<double> max_seconds;
  std::int64_t num_shards = 1;
  std::int64_t shard_id = 0;
  std::string output;
  std::string json;
  bool fresh = false;  // measure again what `output` already has
  bool list = false;   // print the cases, run nothing
  bool wide = false;   // print tables wider than the terminal
};

// `cpu_seconds`: the time budget of a case on the CPU, for the help.
void add_timing_options(CLI::App& app, TimingOptions& options, const std::string& cpu_seconds);
// Throws UsageError if the shard is out of range, if -o and --json would write the same file, or if
// --list, which writes none, is given with one of them.
void check_timing_options(const TimingOptions& options);
// Cases are dealt to the shards in turn, so that each shard gets its share of the large ones.
bool in_shard(const TimingOptions& options, std::size_t index);

// If only --iters is given, it is obeyed however long it takes. If neither --iters nor
// --seconds-per-case is given, a case takes `cpu_seconds` on the CPU and kIterations on a GPU.
bench::Protocol make_protocol(const TimingOptions& options, Device device, double cpu_seconds);

// " --warmup ... --iters ... --seconds-per-case ... --cold", only those that were given.
std::string timing_arguments(const TimingOptions& options);

// Stops a run after --max-seconds.
class RunClock {
 public:
  explicit RunClock(std::optional<double> max_seconds);
  bool is_over() const { return seconds_left() && *seconds_left() <= 0; }
  std::optional<double> seconds_left() const;  // nullopt without --max-seconds

 private:
  bench::Clock clock_;
  double start_;
  std::optional<double> max_seconds_;
};

}  // namespace octet::tool
