// The timing protocol of a device, with a fake clock that only calls advance.
#include "bench/timing/timing.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace octet::bench {
namespace {

// A fake device that runs queued work and keeps a log; '(' and ')' are the two events.
class FakeDevice {
 public:
  BatchClock clock() {
    return {[this](const std::function<void()>& lead_in, const std::function<void()>& timed) {
              lead_in();
              const double start = now_;
              log_ += '(';
              timed();
              log_ += ')';
              return now_ - start;
            },
            [this] { log_ += '|'; },
            [this] {
              now_ += 64;
              log_ += '~';
            }};
  }
  Part part(char letter, double seconds) {
    return [this, letter, seconds](std::int64_t i) {
      now_ += seconds;
      log_ += letter;
      numbers_.push_back(i);
    };
  }
  void pass(double seconds) { now_ += seconds; }
  const std::string& log() const { return log_; }
  const std::vector<std::int64_t>& numbers() const { return numbers_; }

 private:
  double now_ = 0;
  std::string log_;
  std::vector<std::int64_t> numbers_;
};

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

TEST(BatchTiming, DealsTheIterationsOverTheRounds) {
  EXPECT_EQ(batch_sizes(100, 5), (std::vector<int>{20, 20, 20, 20, 20}));
  EXPECT_EQ(batch_sizes(7, 5), (std::vector<int>{2, 2, 1, 1, 1}));
  EXPECT_EQ(batch_sizes(3, 5), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(batch_sizes(1, 1), (std::vector<int>{1}));
}

TEST(BatchTiming, TimesABatchBehindOneCallThatIsNot) {
  FakeDevice device;
  const Samples samples = measure_batches(
      {device.part('f', 0.25), device.part('b', 0.5)},
      {.warmup = 1, .iterations = 4, .seconds = kUnbounded, .rounds = 2}, device.clock());
  EXPECT_EQ(device.log(), "(f)(b)|f(ff)b(bb)f(ff)b(bb)");
  EXPECT_EQ(samples.warmup, 1);
  EXPECT_EQ(samples.iterations(), 4);
  EXPECT_EQ(samples.parts[0].size(), 2u) << "a sample is a batch";
  EXPECT_DOUBLE_EQ(samples.median_seconds(0), 0.25) << "of one call";
  EXPECT_DOUBLE_EQ(samples.median_seconds(1), 0.5);
}

TEST(BatchTiming, ObeysWarmUpsAndIterationsWithNoTimeGiven) {
  FakeDevice device;
  const Samples samples =
      measure_batches({device.part('f', 1)},
                      {.warmup = 20, .iterations = 100, .seconds = kUnbounded}, device.clock());
  EXPECT_EQ(samples.warmup, 20);
  EXPECT_EQ(samples.iterations(), 100);
  EXPECT_EQ(samples.parts[0].size(), 5u);
  EXPECT_EQ(device.numbers().size(), 20u + 100 + 5) << "one call ahead of every batch";
  for (std::size_t i = 0; i < device.numbers().size(); ++i) {
    ASSERT_EQ(device.numbers()[i], static_cast<std::int64_t>(i)) << "inputs rotate";
  }
}

TEST(BatchTiming, IsBoundedByTimeButNotBelowOneCallPerRound) {
  FakeDevice device;
  const Protocol protocol{.warmup = 20, .iterations = 100, .seconds = 1};
  const Samples slow = measure_batches({device.part('s', 2)}, protocol, device.clock());
  EXPECT_EQ(slow.warmup, 2) << "the second says how long one takes";
  EXPECT_EQ(slow.iterations(), 5);
  const Samples quick = measure_batches({device.part('q', 0.0625)}, protocol, device.clock());
  EXPECT_EQ(quick.warmup, 4) << "warm-ups take a quarter of the time";
  EXPECT_EQ(quick.iterations(), 16);
}

TEST(BatchTiming, TheFirstCallDoesNotSayHowLongTheOthersTake) {
  FakeDevice device;
  int calls = 0;
  const Part loads_first = [&](std::int64_t) { device.pass(++calls == 1 ? 50 : 0.001); };
  const Samples samples = measure_batches(
      {loads_first}, {.warmup = 20, .iterations = 100, .seconds = 1}, device.clock());
  EXPECT_EQ(samples.warmup, 20);
  EXPECT_EQ(samples.iterations(), 100);
  EXPECT_NEAR(samples.median_seconds(0), 0.001, 1e-9);
}

TEST(BatchTiming, SpreadIsOverTheBatches) {
  FakeDevice device;
  int batch = 0;
  // Batches of one timed call, each after an untimed one: 1, 2, 3, 4, 5 seconds.
  const Part part = [&](std::int64_t i) {
    if (i % 2 == 0) ++batch;
    device.pass(batch);
  };
  const Samples samples = measure_batches(
      {part}, {.warmup = 1, .iterations = 5, .seconds = kUnbounded}, device.clock());
  ASSERT_EQ(samples.parts[0].size(), 5u);
  EXPECT_GT(samples.spread(), 0.3);
}

TEST(BatchTiming, ContestantsTakeTurnsInFiveRounds) {
  FakeDevice device;
  const Comparison comparison =
      compare_batches({device.part('a', 1)}, {device.part('b', 3)},
                      {.warmup = 1, .iterations = 10, .seconds = kUnbounded}, device.clock());
  EXPECT_EQ(device.log(),
            "(a)(b)|"
            "a(aa)b(bb)"
            "b(bb)a(aa)"
            "a(aa)b(bb)"
            "b(bb)a(aa)"
            "a(aa)b(bb)");
  EXPECT_EQ(comparison.ours.iterations(), 10);
  EXPECT_EQ(comparison.peer.iterations(), 10);
  EXPECT_DOUBLE_EQ(comparison.ratio, 3) << "above 1 where we are faster";
  EXPECT_DOUBLE_EQ(comparison.part_ratios[0], 3);
}

TEST(BatchTiming, ColdTimesCallsOneByOneBehindAFlush) {
  FakeDevice device;
  const Samples samples = measure_batches(
      {device.part('f', 0.25), device.part('b', 0.5)},
      {.warmup = 1, .iterations = 3, .seconds = kUnbounded, .rounds = 2, .cold = true},
      device.clock());
  EXPECT_EQ(device.log(), "(f)(b)|~(f)~(b)~(f)~(b)~(f)~(b)");
  EXPECT_EQ(samples.iterations(), 3);
  EXPECT_EQ(samples.parts[0].size(), 3u) << "a sample is a call";
  EXPECT_DOUBLE_EQ(samples.median_seconds(0), 0.25);
  EXPECT_DOUBLE_EQ(samples.median_seconds(1), 0.5);
  EXPECT_EQ(samples.note(), "cold");
}

TEST(BatchTiming, ColdContestantsTakeTurnsCallByCall) {
  FakeDevice device;
  const Comparison comparison = compare_batches(
      {device.part('a', 1)}, {device.part('b', 3)},
      {.warmup = 1, .iterations = 4, .seconds = kUnbounded, .rounds = 2, .cold = true},
      device.clock());
  EXPECT_EQ(device.log(),
            "(a)(b)|"
            "~(a)~(a)~(b)~(b)"
            "~(b)~(b)~(a)~(a)");
  EXPECT_DOUBLE_EQ(comparison.ratio, 3);
  EXPECT_EQ(comparison.peer.iterations(), 4);
}

TEST(BatchTiming, RatioIsTheMedianOverTheRounds) {
  FakeDevice device;
  // The clock drops to a tenth, only during the first of our batches.
  int calls = 0;
  const Part ours = [&](std::int64_t) { device.pass(++calls <= 3 ? 10 : 1); };
  const Comparison comparison =
      compare_batches({ours}, {device.part('b', 2)},
                      {.warmup = 1, .iterations = 5, .seconds = kUnbounded}, device.clock());
  EXPECT_DOUBLE_EQ(comparison.ratio, 2);
}

TEST(BatchTiming, AComparisonIsBoundedByTime) {
  FakeDevice device;
  const Comparison comparison =
      compare_batches({device.part('a', 0.01)}, {device.part('b', 0.1)},
                      {.warmup = 20, .iterations = 100, .seconds = 1}, device.clock());
  EXPECT_EQ(comparison.ours.iterations(), 50) << "a tenth of a second in each of five rounds";
  EXPECT_EQ(comparison.peer.iterations(), 5);
}

}  // namespace
}  // namespace octet::bench
