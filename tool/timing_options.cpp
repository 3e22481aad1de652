#include "timing_options.hpp"

#include <fmt/format.h>

#include <limits>

namespace octet::tool {

void add_timing_options(CLI::App& app, TimingOptions& options) {
  constexpr std::int64_t kMost = 1'000'000'000;
  add_whole(app, "--warmup", options.warmup, 1, kMost, "calls before the timing; 20");
  add_whole(app, "--iters", options.iterations, 1, kMost, "timed calls; 100, or what time allows");
  add_real(app, "--seconds-per-case", options.seconds_per_case, "bounds the timed calls of a case");
  add_real(app, "--max-seconds", options.max_seconds, "begin no further case after this time");
  add_text(app, "-o,--output", options.output, "FILE.csv", "where the rows go");
}

bench::Protocol make_protocol(const TimingOptions& options, double default_seconds) {
  bench::Protocol protocol;
  protocol.warmup = static_cast<int>(options.warmup);
  protocol.iterations = static_cast<int>(options.iterations.value_or(100));
  protocol.seconds = options.seconds_per_case.value_or(
      options.iterations ? std::numeric_limits<double>::infinity() : default_seconds);
  return protocol;
}

std::string timing_arguments(const TimingOptions& options) {
  std::string result;
  if (options.warmup != 20) result += fmt::format(" --warmup {}", options.warmup);
  if (options.iterations) result += fmt::format(" --iters {}", *options.iterations);
  if (options.seconds_per_case) {
    result += fmt::format(" --seconds-per-case {}", *options.seconds_per_case);
  }
  return result;
}

RunClock::RunClock(std::optional<double> max_seconds)
    : clock_(bench::steady_clock()), start_(clock_.seconds()), max_seconds_(max_seconds) {}

bool RunClock::is_over() const {
  return max_seconds_ && clock_.seconds() - start_ >= *max_seconds_;
}

}  // namespace octet::tool
