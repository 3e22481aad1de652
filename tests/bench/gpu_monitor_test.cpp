// What is reported about a GPU's clocks, from made-up readings.
#include "bench/timing/machine_facts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace octet::bench {
namespace {

TEST(GpuMonitor, SumsUpReadings) {
  const auto all = summarize({{1980, 500, 40, 0}, {1500, 700, 60, 4}, {1700, 600, 50, 0x40}});
  ASSERT_TRUE(all);
  EXPECT_DOUBLE_EQ(all->clock_mhz, 1700) << "the median";
  EXPECT_DOUBLE_EQ(all->power_w, 600) << "the mean";
  EXPECT_DOUBLE_EQ(all->temperature_c, 60) << "the highest";
  EXPECT_EQ(all->throttle, 0x44u) << "every reason";
  EXPECT_FALSE(summarize({}));
}

TEST(GpuMonitor, NamesWhatHeldTheClocksBack) {
  EXPECT_EQ(throttle_text(0), "none");
  EXPECT_EQ(throttle_text(1), "none") << "an idle GPU is not held back";
  EXPECT_EQ(throttle_text(4), "power cap");
  EXPECT_EQ(throttle_text(0x24), "power cap + thermal slowdown (software)");
}

TEST(GpuMonitorThreads, ReadsFromBeginningToEndAndAgain) {
  std::atomic<int> reads{0};
  GpuMonitor monitor(
      [&] {
        const int read = ++reads;
        return std::optional<GpuReading>({static_cast<double>(read), 1, 1, 0});
      },
      0.001);
  EXPECT_FALSE(monitor.end()) << "nothing was begun";
  monitor.begin();
  // Waits as long as a busy machine needs; ctest's timeout ends a monitor that never reads.
  while (reads < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(monitor.end());
  const int before = reads;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(reads, before) << "nobody reads after the end";
  monitor.begin();
  const auto second = monitor.end();
  ASSERT_TRUE(second) << "the shortest timing has a reading at either end";
  EXPECT_GT(second->clock_mhz, before) << "none of the first timing";
}

TEST(GpuMonitorThreads, EmptyReadingsAreNoResult) {
  GpuMonitor monitor([] { return std::optional<GpuReading>(); }, 0.001);
  monitor.begin();
  EXPECT_FALSE(monitor.end());
}

TEST(Nvml, HasNothingToSayOfTheCpu) { EXPECT_FALSE(nvml_reader(kCpu)()); }

}  // namespace
}  // namespace octet::bench
