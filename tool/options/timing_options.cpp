#include "tool/options/timing_options.hpp"

#include "bench/report/record.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

namespace octet::tool {
namespace {

// The absolute path, with links resolved as far as the path exists.
std::filesystem::path whole_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path whole = std::filesystem::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : whole;
}

// Both also write temporary files next to their outputs, so compare all of those paths. "-" is the
// standard output.
void require_two_files(const TimingOptions& options) {
  if (options.json.empty() || options.json == "-" || options.output.empty()) return;
  for (const std::string rows : {"", ".new", ".partial"}) {
    for (const std::string json : {"", ".new"}) {
      if (whole_path(bench::link_target(options.output) + rows) !=
          whole_path(bench::link_target(options.json) + json)) {
        continue;
      }
      refuse_usage("-o and --json must be two files, got -o {} and --json {}: both write {}",
                   options.output, options.json, options.output + rows);
    }
  }
}

}  // namespace

void add_timing_options(CLI::App& app, TimingOptions& options) {
  constexpr std::int64_t kMostCalls = 1'000'000'000;
  constexpr std::int64_t kMostShards = 1'000'000'000;
  add_whole(app, "--warmup", options.warmup, 1, kMostCalls,
            "calls before the timing, in at most a quarter of its time [default: 20]");
  add_whole(app, "--iters", options.iterations, 1, kMostCalls,
            "timed calls; beside a peer a multiple of five [default: 100, or what time allows]");
  add_real(app, "--seconds-per-case", options.seconds_per_case,
           "limit of the timed calls of a case; a noisy one takes it twice");
  add_flag(app, "--cold", options.cold,
           "empty the cache before every timed call; without it calls run back to back");
  add_real(app, "--max-seconds", options.max_seconds, "start no further case after this time");
  add_whole(app, "--num-shards", options.num_shards, 1, kMostShards,
            "deal the cases to this many runs [default: 1]");
  add_whole(app, "--shard-id", options.shard_id, 0, kMostShards,
            "which of them this is, from 0 [default: 0]");
  add_text(app, "-o,--output", options.output, "FILE.csv",
           "where the rows go; cases that have a row there are not run again");
  add_text(app, "--json", options.json, "FILE.json",
           "where the rows go as JSON, written whole at the end");
  add_flag(app, "--fresh", options.fresh, "run all cases again and replace the file");
  add_flag(app, "--wide", options.wide, "Print the whole table, also if the terminal is narrower.");
}

void check_timing_options(const TimingOptions& options) {
  require_two_files(options);
  if (options.shard_id >= options.num_shards) {
    refuse_usage("--shard-id must be below --num-shards {}, got {}", options.num_shards,
                 options.shard_id);
  }
}

bool in_shard(const TimingOptions& options, std::size_t index) {
  return static_cast<std::int64_t>(index) % options.num_shards == options.shard_id;
}

bench::Protocol make_protocol(const TimingOptions& options, Device device, double cpu_seconds) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  const bool on_cpu = device.type == DeviceType::cpu;
  bench::Protocol protocol;
  protocol.warmup = static_cast<int>(options.warmup);
  protocol.iterations = static_cast<int>(options.iterations.value_or(100));
  protocol.seconds =
      options.seconds_per_case.value_or(on_cpu && !options.iterations ? cpu_seconds : kUnbounded);
  protocol.cold = options.cold;
  return protocol;
}

std::string timing_arguments(const TimingOptions& options) {
  std::string result;
  if (options.warmup != 20) result += fmt::format(" --warmup {}", options.warmup);
  if (options.iterations) result += fmt::format(" --iters {}", *options.iterations);
  if (options.seconds_per_case) {
    result += fmt::format(" --seconds-per-case {}", *options.seconds_per_case);
  }
  if (options.cold) result += " --cold";
  return result;
}

RunClock::RunClock(std::optional<double> max_seconds)
    : clock_(bench::steady_clock()), start_(clock_.seconds()), max_seconds_(max_seconds) {}

std::optional<double> RunClock::seconds_left() const {
  if (!max_seconds_) return std::nullopt;
  return *max_seconds_ - (clock_.seconds() - start_);
}

}  // namespace octet::tool
