#include "bench/timing/timing.hpp"

#include "bench/timing/comparison.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace octet::bench {
namespace {

// A task and how often it has been called.
class Runner {
 public:
  Runner(const Task& task, const Protocol& protocol, const Clock& clock)
      : task_(task), protocol_(protocol), clock_(clock) {
    samples_.parts.resize(task.size());
    samples_.cold = protocol.cold;
  }

  // At least one call, in a quarter of `seconds` at most: the first pays for pages and caches.
  void warm_up(double seconds) {
    const double start = clock_.seconds();
    do {
      call(false);
      ++samples_.warmup;
    } while (samples_.warmup < protocol_.warmup && clock_.seconds() - start < seconds / 4);
  }

  // Timed calls until their number or their time is reached. Returns these samples alone.
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

}  // namespace

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
  RoundRatios ratios(ours.size());
  for (int round = 0; round < rounds; ++round) {
    take_turns(
        round, [&] { return take_turn(our_runner); }, [&] { return take_turn(peer_runner); },
        ratios);
  }
  return ratios.comparison(our_runner.samples(), peer_runner.samples());
}

}  // namespace octet::bench
