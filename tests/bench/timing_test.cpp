#include "bench/timing/timing.hpp"

#include <gtest/gtest.h>

#include <string>

namespace octet::bench {
namespace {

constexpr double kFlushSeconds = 64;

// A fake clock that only parts, pauses and flushes advance.
class FakeTime {
 public:
  Clock clock() {
    return {[this] { return now_; },
            [this](double seconds) {
              now_ += seconds;
              log_ += '.';
            },
            [this] {
              now_ += kFlushSeconds;
              log_ += '~';
            }};
  }
  // A part that takes `seconds` and appends its letter to the log.
  Part part(char letter, double seconds) {
    return [this, letter, seconds](std::int64_t) {
      now_ += seconds;
      log_ += letter;
    };
  }
  void pass(double seconds) { now_ += seconds; }
  double now() const { return now_; }
  const std::string& log() const { return log_; }

 private:
  double now_ = 100;
  std::string log_;
};

TEST(Timing, TakesTheIterationsAskedForAfterTheWarmUps) {
  FakeTime time;
  const Samples samples = measure({time.part('f', 0.25), time.part('b', 0.5)},
                                  {.warmup = 2, .iterations = 5, .seconds = 1000}, time.clock());
  EXPECT_EQ(time.log(), "fbfbfbfbfbfbfb");
  EXPECT_EQ(samples.warmup, 2);
  EXPECT_EQ(samples.iterations(), 5);
  EXPECT_DOUBLE_EQ(samples.median_seconds(0), 0.25);
  EXPECT_DOUBLE_EQ(samples.median_seconds(1), 0.5);
  EXPECT_DOUBLE_EQ(samples.spread(), 0);
}

TEST(Timing, IsBoundedByTimeButNotBelowThreeIterations) {
  FakeTime time;
  Protocol protocol;
  protocol.seconds = 1;
  const Samples slow = measure({time.part('s', 2)}, protocol, time.clock());
  EXPECT_EQ(slow.iterations(), 3);
  EXPECT_EQ(slow.warmup, 1);

  const Samples quick = measure({time.part('q', 0.0625)}, protocol, time.clock());
  EXPECT_EQ(quick.iterations(), 16);
  EXPECT_EQ(quick.warmup, 4) << "warm-ups take a quarter of the time";
}

TEST(Timing, CountsCallsUpOverWarmUpsAndIterations) {
  FakeTime time;
  std::vector<std::int64_t> numbers;
  measure({[&](std::int64_t i) { numbers.push_back(i); }}, {.warmup = 2, .iterations = 3},
          time.clock());
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Timing, SpreadIsOfWholeIterations) {
  FakeTime time;
  // What one part loses, the other gains.
  const Samples steady = measure({[&](std::int64_t i) { time.pass(static_cast<double>(i)); },
                                  [&](std::int64_t i) { time.pass(static_cast<double>(8 - i)); }},
                                 {.warmup = 1, .iterations = 5, .seconds = 1000}, time.clock());
  EXPECT_DOUBLE_EQ(steady.spread(), 0);
  const Samples noisy = measure({[&](std::int64_t i) { time.pass(static_cast<double>(i)); }},
                                {.warmup = 1, .iterations = 5, .seconds = 1000}, time.clock());
  EXPECT_DOUBLE_EQ(noisy.spread(), 2.0 / 3.0);
}

TEST(Timing, ContestantsTakeTurnsAfterAPauseAndAnUntimedCall) {
  FakeTime time;
  const Comparison comparison =
      compare({time.part('a', 1)}, {time.part('b', 3)},
              {.warmup = 1, .iterations = 5, .seconds = 1000, .rounds = 5}, time.clock());
  // Warm-ups, then five rounds; which side goes first alternates.
  EXPECT_EQ(time.log(),
            "ab"
            ".aa.bb"
            ".bb.aa"
            ".aa.bb"
            ".bb.aa"
            ".aa.bb");
  EXPECT_EQ(comparison.ours.iterations(), 5);
  EXPECT_EQ(comparison.peer.iterations(), 5);
  EXPECT_DOUBLE_EQ(comparison.ratio, 3) << "above 1 where we are faster";
  EXPECT_DOUBLE_EQ(comparison.part_ratios[0], 3);
}

TEST(Timing, ColdFlushesTheCacheBeforeEveryTimedPartOutsideOfItsTime) {
  FakeTime time;
  const Samples samples =
      measure({time.part('f', 0.25), time.part('b', 0.5)},
              {.warmup = 2, .iterations = 2, .seconds = 1000, .cold = true}, time.clock());
  EXPECT_EQ(time.log(), "fbfb~f~b~f~b");
  EXPECT_DOUBLE_EQ(samples.median_seconds(0), 0.25);
  EXPECT_DOUBLE_EQ(samples.median_seconds(1), 0.5);
  EXPECT_TRUE(samples.cold);
  EXPECT_EQ(samples.note(), "cold");
}

TEST(Timing, ColdContestantsBothMeetAnEmptyCache) {
  FakeTime time;
  const Comparison comparison = compare(
      {time.part('a', 1)}, {time.part('b', 3)},
      {.warmup = 1, .iterations = 4, .seconds = 10000, .rounds = 2, .cold = true}, time.clock());
  EXPECT_EQ(time.log(),
            "ab"
            ".a~a~a.b~b~b"
            ".b~b~b.a~a~a");
  EXPECT_DOUBLE_EQ(comparison.ratio, 3);
  EXPECT_TRUE(comparison.peer.cold);
}

TEST(Timing, RatioIsTheMedianOverTheRounds) {
  FakeTime time;
  // The machine is ten times slower during the third of five rounds, for both.
  int our_calls = 0;
  int peer_calls = 0;
  const Part ours = [&](std::int64_t) { time.pass(++our_calls > 5 && our_calls <= 7 ? 10 : 1); };
  const Part peer = [&](std::int64_t) { time.pass(++peer_calls > 5 && peer_calls <= 7 ? 20 : 2); };
  const Comparison comparison =
      compare({ours}, {peer}, {.warmup = 1, .iterations = 5, .seconds = 1000}, time.clock());
  EXPECT_DOUBLE_EQ(comparison.ratio, 2);
  EXPECT_EQ(our_calls, 11);
}

TEST(Timing, ComparisonIsBoundedByTime) {
  FakeTime time;
  Protocol protocol;
  protocol.seconds = 1;
  const double start = time.now();
  const Comparison comparison =
      compare({time.part('a', 0.01)}, {time.part('b', 0.01)}, protocol, time.clock());
  EXPECT_GE(comparison.ours.iterations(), 5);
  EXPECT_LE(time.now() - start, 2.5);
  EXPECT_EQ(comparison.ours.warmup, 13) << "the warm-ups of both take a quarter of the time";
  EXPECT_EQ(comparison.peer.warmup, 13);
}

TEST(Timing, SteadyClockMovesForward) {
  const Clock clock = steady_clock();
  const double before = clock.seconds();
  clock.sleep_seconds(0.002);
  EXPECT_GE(clock.seconds() - before, 0.002);
}

}  // namespace
}  // namespace octet::bench
