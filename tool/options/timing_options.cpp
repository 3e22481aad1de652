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

void add_timing_options(CLI::App& app, TimingOptions& options, const std::string& cpu_seconds) {
  constexpr std::int64_t kMostCalls = 1'000'000'000;
  constexpr std::int64_t kMostShards = 1'000'000'000;
  option_group(app, kCaseOptions);
  add_whole(app, "--num-shards", options.num_shards, 1, kMostShards,
            "Split the cases over this many runs.");
  add_whole(app, "--shard-id", options.shard_id, 0, kMostShards,
            "Which of these runs this is, counted from 0.");
  option_group(app, "Timing");
  add_whole(app, "--warmup", options.warmup, 1, kMostCalls,
            "Warm-up calls per case, in at most 25 % of the time budget.");
  add_whole(app, "--iters", options.iterations, 1, kMostCalls,
            with_default("Timed calls per case; next to a baseline or a copy, a multiple of 5.",
                         fmt::format("{}, fewer if the time budget ends", kIterations)));
  add_real(app, "--seconds-per-case", options.seconds_per_case,
           with_default("Time budget of a case in seconds; a noisy case is measured twice.",
                        "no limit on a GPU or with --iters; on the CPU " + cpu_seconds));
  add_real(app, "--max-seconds", options.max_seconds,
           with_default("Start no further case after this many seconds; rerun the same command to "
                        "continue.",
                        "no limit"));
  add_flag(app, "--cold", options.cold,
           "Flush the caches before each timed call. Without it calls run back to back.");
  option_group(app, "Output");
  add_text(app, "-o,--output", options.output, "FILE.csv",
           "Keep the rows in this file. Cases that have a row there are not measured again; a row "
           "with other settings is replaced.");
  add_flag(app, "--fresh", options.fresh,
           "Ignore existing rows: measure all cases and replace FILE.csv.");
  add_text(app, "--json", options.json, "FILE.json",
           "Also write the results as JSON when the run ends; - is the standard output.");
  add_flag(app, "--list", options.list,
           "Only print the shape and the name of every case; nothing is run or written.");
  add_flag(app, "--wide", options.wide, "Show every column in full, however wide the table gets.");
}

void check_timing_options(const TimingOptions& options) {
  require_two_files(options);
  if (options.list && !(options.output.empty() && options.json.empty())) {
    refuse_usage(
        "--list prints the cases and writes no file, got {} as well; leave one of them out",
        options.output.empty() ? "--json " + options.json : "-o " + options.output);
  }
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
  protocol.iterations = static_cast<int>(options.iterations.value_or(kIterations));
  protocol.seconds =
      options.seconds_per_case.value_or(on_cpu && !options.iterations ? cpu_seconds : kUnbounded);
  protocol.cold = options.cold;
  return protocol;
}

std::string timing_arguments(const TimingOptions& options) {
  std::string result;
  if (options.warmup != TimingOptions{}.warmup)
    result += fmt::format(" --warmup {}", options.warmup);
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
