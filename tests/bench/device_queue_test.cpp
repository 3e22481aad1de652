// Time between events, on a Hopper GPU.
#include "bench/timing/device_timing.hpp"
#include "bench/workloads/memory.hpp"

#include "support/on_cuda.hpp"

#include <octet/bench.hpp>

#include <gtest/gtest.h>

namespace octet::bench {
namespace {

constexpr Device kCuda{DeviceType::cuda, 0};

TEST(DeviceQueue, RefusesADeviceThatIsNotThere) {
  EXPECT_THROW(DeviceQueue({DeviceType::cuda, 4096}), Error);
  EXPECT_THROW(free_cuda_bytes({DeviceType::cuda, 4096}), Error);
}

TEST(DeviceQueue, TimesACopyAndNotWhatGoesAhead) {
  OCTET_NEEDS_HOPPER();
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
  OCTET_NEEDS_HOPPER();
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

TEST(DeviceTiming, RefusesADeviceThatIsNotThere) {
  try {
    const DeviceTiming timing({DeviceType::cuda, 4096});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_device);
    EXPECT_EQ(std::string(error.what()).rfind("bench: ", 0), 0u) << error.what();
  }
}

TEST(DeviceTiming, RefusesTasksThatAreNone) {
  DeviceTiming timing;
  const Part part = [](std::int64_t) {};
  EXPECT_THROW(timing.measure({}), Error);
  EXPECT_THROW(timing.measure({part, nullptr}), Error);
  EXPECT_THROW(timing.compare({part}, {part, part}), Error);
}

TEST(DeviceTiming, TimesOnTheStreamOfTheCaller) {
  OCTET_NEEDS_HOPPER();
  const DeviceQueue queue(kCuda);
  const Buffer memory(std::size_t{1} << 20, kCuda);
  const Part clear = [&](std::int64_t) {
    queue_clear(memory.data(), memory.bytes(), kCuda, queue.stream());
  };
  DeviceTiming timing(kCuda, queue.stream());
  EXPECT_EQ(timing.stream(), queue.stream());
  const Samples samples = timing.measure({clear}, {.warmup = 2, .iterations = 10, .seconds = 1e9});
  EXPECT_EQ(samples.iterations(), 10);
  EXPECT_GT(samples.median_seconds(), 0);
}

TEST(DeviceTiming, ColdTimesEveryCallOnItsOwn) {
  OCTET_NEEDS_HOPPER();
  DeviceTiming timing(kCuda);
  const Buffer memory(std::size_t{1} << 20, kCuda);
  const Part clear = [&](std::int64_t) {
    queue_clear(memory.data(), memory.bytes(), kCuda, timing.stream());
  };
  const Samples samples =
      timing.measure({clear}, {.warmup = 2, .iterations = 10, .seconds = 1e9, .cold = true});
  EXPECT_EQ(samples.parts[0].size(), 10u);
  EXPECT_GT(samples.median_seconds(), 0);
  EXPECT_EQ(samples.note().rfind("cold", 0), 0u);
}

TEST(DeviceTiming, JudgesAndMeasuresAKernelBesideACopy) {
  OCTET_NEEDS_HOPPER();
  DeviceTiming timing(kCuda);
  const Tensor out(Dtype::f32, {1 << 20}, kCuda);
  const Part clear = [&](std::int64_t) {
    queue_clear(out.data(), out.bytes(), kCuda, timing.stream());
  };
  const Gate gate = make_gate(out, std::vector<double>(1 << 20, 0), {.absolute = 0});
  EXPECT_TRUE(gate([&] { clear(0); }).pass);
  EXPECT_FALSE(gate([] {}).pass) << "nothing was written";
  const Comparison comparison = compare_with_copy(timing, clear, out.bytes());
  EXPECT_GT(comparison.ratio, 0);
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
