// Time between events, on a Hopper GPU.
#include "bench/device_timing.hpp"
#include "bench/memory.hpp"

#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

namespace octet::bench {
namespace {

constexpr Device kCuda{DeviceType::cuda, 0};

TEST(DeviceQueue, RefusesADeviceThatIsNotThere) {
  EXPECT_THROW(DeviceQueue({DeviceType::cuda, 4096}), Error);
  EXPECT_THROW(free_cuda_bytes({DeviceType::cuda, 4096}), Error);
}

TEST(DeviceQueue, TimesACopyAndNotWhatGoesAhead) {
  if (!octet::testing::has_hopper()) GTEST_SKIP() << "no Hopper GPU on this machine";
  const std::size_t bytes = std::size_t{1} << 30;
  const Buffer from(bytes, kCuda);
  const Buffer to(bytes, kCuda);
  DeviceQueue queue(kCuda);
  const auto copy = [&] { queue_copy(to.data(), from.data(), bytes, kCuda, queue.stream()); };
  const auto copies = [&] {
    for (int i = 0; i < 10; ++i) copy();
  };
  copy();
  const double one = queue.seconds(copies, copy);
  const double ten = queue.seconds([] {}, copies);
  EXPECT_GT(one, 2.0 * static_cast<double>(bytes) / 8e12) << "faster than the memory";
  EXPECT_LT(one, 0.1);
  EXPECT_NEAR(ten / one, 10, 3);
}

TEST(DeviceTiming, WatchesTheGpuWhileItIsTimed) {
  if (!octet::testing::has_hopper()) GTEST_SKIP() << "no Hopper GPU on this machine";
  const Buffer from(std::size_t{1} << 28, kCuda);
  const Buffer to(from.bytes(), kCuda);
  DeviceTiming timing(kCuda);
  const Samples samples =
      timing.measure({[&](std::int64_t) {
                       queue_copy(to.data(), from.data(), from.bytes(), kCuda, timing.stream());
                     }},
                     {.warmup = 20, .iterations = 100, .seconds = 1e9});
  EXPECT_EQ(samples.iterations(), 100);
  ASSERT_TRUE(samples.gpu) << "is libnvidia-ml.so.1 there?";
  EXPECT_GT(samples.gpu->clock_mhz, 0);
  EXPECT_GT(samples.gpu->power_w, 0);
}

TEST(DeviceTiming, OnTheCpuHasNoStreamAndNoGpu) {
  DeviceTiming timing(kCpu);
  EXPECT_EQ(timing.stream(), nullptr);
  const Samples samples =
      timing.measure({[](std::int64_t) {}}, {.warmup = 1, .iterations = 7, .seconds = 1e9});
  EXPECT_EQ(samples.iterations(), 7);
  EXPECT_EQ(samples.parts[0].size(), 7u) << "every iteration is a sample";
  EXPECT_FALSE(samples.gpu);
}

}  // namespace
}  // namespace octet::bench
