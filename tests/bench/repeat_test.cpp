// A noisy measurement is repeated. The fake clock is advanced only by calls.
#include "bench/timing/timing.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace octet::bench {
namespace {

constexpr Protocol kProtocol{.warmup = 1, .iterations = 5, .seconds = 1000};

// Each measurement takes the next list of times; its warm-up takes the first of them.
class ScriptedKernel {
 public:
  explicit ScriptedKernel(std::vector<std::vector<double>> times) : times_(std::move(times)) {}

  Samples measure() {
    return repeat_where_noisy(kProtocol, [&](std::int64_t first_call) {
      const std::vector<double>& times = times_.at(tries_++);
      std::size_t next = 0;
      const Task task{[&](std::int64_t call) {
        calls_.push_back(call);
        now_ += times.at(next++);
      }};
      return bench::measure(counting_from(first_call, task), kProtocol,
                            {[&] { return now_; }, [](double) {}});
    });
  }
  std::size_t tries() const { return tries_; }
  const std::vector<std::int64_t>& calls() const { return calls_; }

 private:
  std::vector<std::vector<double>> times_;
  std::vector<std::int64_t> calls_;
  std::size_t tries_ = 0;
  double now_ = 0;
};

TEST(Repeat, AQuietMeasurementIsMadeOnce) {
  ScriptedKernel kernel({{1, 1, 1, 1, 1, 1}});
  const Samples samples = kernel.measure();
  EXPECT_EQ(kernel.tries(), 1u);
  EXPECT_FALSE(samples.repeated);
  EXPECT_EQ(samples.note(), "");
}

TEST(Repeat, ANoisyOneIsMadeAgainAndTheQuietOneKept) {
  ScriptedKernel kernel({{1, 1, 2, 3, 4, 5}, {1, 2, 2, 2, 2, 2}});
  const Samples samples = kernel.measure();
  EXPECT_EQ(kernel.tries(), 2u);
  EXPECT_DOUBLE_EQ(samples.median_seconds(), 2);
  EXPECT_TRUE(samples.repeated);
  EXPECT_FALSE(samples.noisy());
  EXPECT_EQ(samples.note(), "repeated");
}

TEST(Repeat, TheQuieterOfTwoNoisyOnesIsKeptAndSaysSo) {
  ScriptedKernel kernel({{1, 10, 11, 12, 13, 14}, {1, 1, 2, 3, 4, 5}});
  const Samples samples = kernel.measure();
  EXPECT_EQ(kernel.tries(), 2u) << "once, not until it is quiet";
  EXPECT_DOUBLE_EQ(samples.median_seconds(), 12);
  EXPECT_EQ(samples.note(), "noisy; repeated");
}

TEST(Repeat, TheSecondTryGoesOnThroughTheInputs) {
  ScriptedKernel kernel({{1, 1, 2, 3, 4, 5}, {1, 2, 2, 2, 2, 2}});
  kernel.measure();
  const std::vector<std::int64_t>& calls = kernel.calls();
  ASSERT_EQ(calls.size(), 12u);
  EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
  EXPECT_GT(calls[6], calls[5]) << "the inputs of the first try lie in the cache";
  EXPECT_LT(calls.back(), most_calls(kProtocol));
}

TEST(Repeat, OurSideOfAComparisonDecides) {
  Samples quiet;
  quiet.parts = {{1, 1, 1}};
  Samples noisy;
  noisy.parts = {{1, 2, 3}};
  int tries = 0;
  const Comparison comparison = repeat_where_noisy(kProtocol, [&](std::int64_t) {
    return ++tries == 1 ? Comparison{noisy, quiet, {1}, 1} : Comparison{quiet, noisy, {2}, 2};
  });
  EXPECT_EQ(tries, 2);
  EXPECT_DOUBLE_EQ(comparison.ratio, 2);
  EXPECT_TRUE(comparison.ours.repeated);
}

TEST(Repeat, MostCallsBoundsEveryProtocol) {
  for (const int iterations : {1, 3, 7, 100}) {
    const Protocol protocol{.warmup = 2, .iterations = iterations, .seconds = 1e9};
    std::int64_t calls = 0;
    double now = 0;
    const Task task{[&](std::int64_t call) {
      calls = std::max(calls, call + 1);
      now += 1;
    }};
    compare(task, task, protocol, {[&] { return now; }, [](double) {}});
    EXPECT_LE(calls, most_calls(protocol) / 2) << iterations;
  }
}

}  // namespace
}  // namespace octet::bench
