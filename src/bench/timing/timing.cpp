#include "bench/timing/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

namespace octet::bench {
namespace {

// The value below which `fraction` of the sorted samples lie, interpolated between neighbours.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// The median of each part's times.
std::vector<double> medians(const std::vector<std::vector<double>>& parts) {
  std::vector<double> result;
  result.reserve(parts.size());
  for (const auto& part : parts) result.push_back(median(part));
  return result;
}

// Collects one ratio per round and part, peer's time over ours.
class RoundRatios {
 public:
  explicit RoundRatios(std::size_t parts) : parts_(parts) {}

  void add(const std::vector<double>& our_times, const std::vector<double>& peer_times) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      parts_[part].push_back(peer_times[part] / our_times[part]);
    }
    wholes_.push_back(total(peer_times) / total(our_times));
  }

  Comparison comparison(const Samples& ours, const Samples& peer) const {
    return {ours, peer, medians(parts_), median(wholes_)};
  }

 private:
  std::vector<std::vector<double>> parts_;  // [part][round]
  std::vector<double> wholes_;
};

// One round. The contestants alternate in going first, so that neither always has a warmer machine.
template <class OurTurn, class PeerTurn>
void take_turns(int round, OurTurn our_turn, PeerTurn peer_turn, RoundRatios& ratios) {
  const bool ours_first = round % 2 == 0;
  std::vector<double> our_times;
  if (ours_first) our_times = our_turn();
  const std::vector<double> peer_times = peer_turn();
  if (!ours_first) our_times = our_turn();
  ratios.add(our_times, peer_times);
}

// A task and how often it has been called.
class Runner {
 public:
  Runner(const Task& task, const Protocol& protocol, const Clock& clock)
      : task_(task), protocol_(protocol), clock_(clock) {
    samples_.parts.resize(task.size());
    samples_.cold = protocol.cold;
  }

  // At least one call, in at most a quarter of `seconds`: the first call pays for pages and caches.
  void warm_up(double seconds) {
    const double start = clock_.seconds();
    do {
      call(false);
      ++samples_.warmup;
    } while (samples_.warmup < protocol_.warmup && clock_.seconds() - start < seconds / 4);
  }

  // Timed calls until their number or their time is reached. Returns only these samples.
  Samples iterate(int most, int least, double seconds) {
    Samples turn;
    turn.parts.resize(task_.size());
    const double start = clock_.seconds();
    for (int i = 0; i < most && (i < least || clock_.seconds() - start < seconds); ++i) {
      const std::vector<double> times = call(protocol_.cold);
      for (std::size_t part = 0; part < times.size(); ++part) {
        turn.parts[part].push_back(times[part]);
        samples_.parts[part].push_back(times[part]);
      }
      ++samples_.timed_calls;
    }
    return turn;
  }

  std::vector<double> call(bool cold) {
    std::vector<double> times;
    for (const Part& part : task_) {
      if (cold) clock_.flush_cache();
      const double start = clock_.seconds();
      part(calls_);
      times.push_back(clock_.seconds() - start);
    }
    ++calls_;
    return times;
  }

  const Samples& samples() const { return samples_; }

 private:
  const Task& task_;
  const Protocol& protocol_;
  const Clock& clock_;
  Samples samples_;
  std::int64_t calls_ = 0;
};

// A task and how often it has been queued.
class BatchRunner {
 public:
  BatchRunner(const Task& task, const Protocol& protocol, const BatchClock& clock)
      : task_(task), clock_(clock) {
    samples_.parts.resize(task.size());
    samples_.cold = protocol.cold;
  }

  // At least one call, in at most a quarter of `seconds`. The first call pays for loading the
  // kernels and does not predict the time of the others.
  void warm_up(int calls, double seconds) {
    step_seconds_ = total(queue([] {}, 0, 1));
    samples_.warmup = 1;
    if (calls > 1) {
      step_seconds_ = total(queue([] {}, 0, 1));
      samples_.warmup = 2;
    }
    const int more = calls_within(seconds / 4, calls) - samples_.warmup;
    if (more > 0) {
      step_seconds_ = total(queue([] {}, 0, more)) / more;
      samples_.warmup += more;
    }
  }

  // How many calls of all parts fit into the time, at most `most`, judging by the warm-ups.
  int calls_within(double seconds, int most) const {
    if (step_seconds_ * most <= seconds) return most;
    return std::max(1, static_cast<int>(seconds / step_seconds_));
  }

  // Runs calls back to back as one batch or, if cold, one by one and takes their median. Returns
  // the seconds per call of each part.
  std::vector<double> turn(int calls) {
    if (!samples_.cold) return batch(calls);
    std::vector<std::vector<double>> by_part(task_.size());
    for (int i = 0; i < calls; ++i) {
      const std::vector<double> times = batch(1);
      for (std::size_t part = 0; part < times.size(); ++part) by_part[part].push_back(times[part]);
    }
    return medians(by_part);
  }

  const Samples& samples() const { return samples_; }

 private:
  std::vector<double> batch(int calls) {
    std::vector<double> times =
        samples_.cold ? queue(clock_.flush_cache, 0, calls) : queue([] {}, 1, calls);
    for (std::size_t part = 0; part < times.size(); ++part) {
      times[part] /= calls;
      samples_.parts[part].push_back(times[part]);
    }
    samples_.timed_calls += calls;
    return times;
  }

  // For every part in turn, queues `first` and `ahead` untimed calls, then `timed` calls. Returns
  // the seconds of the timed calls per part.
  std::vector<double> queue(const std::function<void()>& first, int ahead, int timed) {
    std::vector<double> times;
    for (const Part& part : task_) {
      times.push_back(clock_.seconds(
          [&] {
            first();
            for (int i = 0; i < ahead; ++i) part(calls_ + i);
          },
          [&] {
            for (int i = 0; i < timed; ++i) part(calls_ + ahead + i);
          }));
    }
    calls_ += ahead + timed;
    return times;
  }

  const Task& task_;
  const BatchClock& clock_;
  Samples samples_;
  std::int64_t calls_ = 0;
  double step_seconds_ = 0;
};

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  return quantile(samples, 0.5);
}

double spread(std::vector<double> samples) {
  if (samples.size() < 2) return 0;
  std::sort(samples.begin(), samples.end());
  const double middle = quantile(samples, 0.5);
  if (middle <= 0) return 0;
  return (quantile(samples, 0.75) - quantile(samples, 0.25)) / middle;
}

double geometric_mean(const std::vector<double>& samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const double sample : samples) sum += std::log(sample);
  return std::exp(sum / static_cast<double>(samples.size()));
}

// If the iterations do not divide evenly, a round has one call more than its share; every round
// also has one untimed call.
std::int64_t most_calls(const Protocol& protocol) {
  const std::int64_t once = std::int64_t{std::max(protocol.warmup, 1)} + protocol.iterations +
                            2 * std::int64_t{std::max(protocol.rounds, 1)};
  return 2 * once;
}

double Samples::median_seconds(std::size_t part) const { return median(parts.at(part)); }

double Samples::spread() const {
  std::vector<double> whole(parts.empty() ? 0 : parts[0].size(), 0);
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += part[i];
  }
  return bench::spread(whole);
}

bool Samples::noisy() const { return spread() > kNoisySpread; }

std::string Samples::note() const {
  std::string result;
  const auto add = [&](bool holds, const char* word) {
    if (holds) result += (result.empty() ? "" : "; ") + std::string(word);
  };
  add(cold, "cold");
  add(noisy(), "noisy");
  add(repeated, "repeated");
  return result;
}

Clock steady_clock() {
  return {
      [] {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration<double>(now).count();
      },
      [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }};
}

Samples measure(const Task& task, const Protocol& protocol, const Clock& clock) {
  Runner runner(task, protocol, clock);
  runner.warm_up(protocol.seconds);
  clock.timing_begins();
  runner.iterate(std::max(protocol.iterations, 1), protocol.least_iterations, protocol.seconds);
  return runner.samples();
}

Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol,
                   const Clock& clock) {
  Runner our_runner(ours, protocol, clock);
  Runner peer_runner(peer, protocol, clock);
  const int rounds = std::max(protocol.rounds, 1);
  const int most = std::max((protocol.iterations + rounds - 1) / rounds, 1);
  const double turn_seconds = protocol.seconds / (2 * rounds);
  // The call after the pause finds cold caches, so it is not timed.
  const auto take_turn = [&](Runner& runner) {
    clock.sleep_seconds(protocol.settle_seconds);
    runner.call(false);
    return medians(runner.iterate(most, 1, turn_seconds).parts);
  };

  our_runner.warm_up(protocol.seconds / 2);
  peer_runner.warm_up(protocol.seconds / 2);
  clock.timing_begins();
  RoundRatios ratios(ours.size());
  for (int round = 0; round < rounds; ++round) {
    take_turns(
        round, [&] { return take_turn(our_runner); }, [&] { return take_turn(peer_runner); },
        ratios);
  }
  return ratios.comparison(our_runner.samples(), peer_runner.samples());
}

std::vector<int> batch_sizes(int iterations, int rounds) {
  const int batches = std::clamp(iterations, 1, std::max(rounds, 1));
  std::vector<int> sizes(static_cast<std::size_t>(batches));
  for (int i = 0; i < batches; ++i) {
    sizes[static_cast<std::size_t>(i)] =
        std::max(1, iterations / batches + (i < iterations % batches ? 1 : 0));
  }
  return sizes;
}

Samples measure_batches(const Task& task, const Protocol& protocol, const BatchClock& clock) {
  BatchRunner runner(task, protocol, clock);
  runner.warm_up(protocol.warmup, protocol.seconds);
  clock.timing_begins();
  const int fitting = runner.calls_within(protocol.seconds, protocol.iterations);
  const int least = std::min(protocol.iterations, protocol.rounds);
  for (const int calls : batch_sizes(std::max(fitting, least), protocol.rounds)) {
    runner.turn(calls);
  }
  return runner.samples();
}

Comparison compare_batches(const Task& ours, const Task& peer, const Protocol& protocol,
                           const BatchClock& clock) {
  BatchRunner our_runner(ours, protocol, clock);
  BatchRunner peer_runner(peer, protocol, clock);
  our_runner.warm_up(protocol.warmup, protocol.seconds / 2);
  peer_runner.warm_up(protocol.warmup, protocol.seconds / 2);
  clock.timing_begins();
  const int rounds = std::max(protocol.rounds, 1);
  const int most = std::max((protocol.iterations + rounds - 1) / rounds, 1);
  const double turn_seconds = protocol.seconds / (2 * rounds);
  const int our_calls = our_runner.calls_within(turn_seconds, most);
  const int peer_calls = peer_runner.calls_within(turn_seconds, most);
  RoundRatios ratios(ours.size());
  for (int round = 0; round < rounds; ++round) {
    take_turns(
        round, [&] { return our_runner.turn(our_calls); },
        [&] { return peer_runner.turn(peer_calls); }, ratios);
  }
  return ratios.comparison(our_runner.samples(), peer_runner.samples());
}

Task counting_from(std::int64_t first, const Task& task) {
  Task result;
  for (const Part& part : task) {
    result.push_back([&part, first](std::int64_t call) { part(first + call); });
  }
  return result;
}

}  // namespace octet::bench
