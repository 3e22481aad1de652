// parallel_for: every index once, from any number of callers, in IEEE arithmetic.
#include "cpu/threads.hpp"

#include "support/environment.hpp"

#include <octet/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace octet {
namespace {

// Runs a loop and counts the visits of each index.
std::vector<int> visits(int threads, std::int64_t count) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
  parallel_for(threads, count, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
  return {seen.begin(), seen.end()};
}

TEST(CpuThreads, VisitEachIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    for (std::int64_t count : {1, 2, 7, 1000}) {
      EXPECT_EQ(visits(threads, count), std::vector<int>(static_cast<std::size_t>(count), 1))
          << threads << " threads, " << count << " tasks";
    }
  }
}

TEST(CpuThreads, MayBeMoreThanThereAreTasks) {
  EXPECT_EQ(visits(16, 3), (std::vector<int>{1, 1, 1}));
}

TEST(CpuThreads, HaveNothingToDoForNoTasks) {
  int calls = 0;
  parallel_for(4, 0, [&](std::int64_t) { ++calls; });
  parallel_for(4, -5, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST(CpuThreads, OneThreadRunsInOrderOnTheCaller) {
  std::vector<std::int64_t> order;
  const auto caller = std::this_thread::get_id();
  parallel_for(1, 5, [&](std::int64_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(CpuThreads, AreNeverMoreThanWasAsked) {
  visits(8, 1000);  // the pool now has spare workers
  std::mutex mutex;
  std::set<std::thread::id> ids;
  parallel_for(2, 200, [&](std::int64_t) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_LE(ids.size(), 2u);
}

// Two tasks that wait for each other. They finish early only if two threads run them.
class Meeting {
 public:
  bool attend() {
    // Relaxed: a meeting must not order the accesses that the loop itself should order.
    arrived_.fetch_add(1, std::memory_order_relaxed);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived_.load(std::memory_order_relaxed) < 2) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::atomic<int> arrived_{0};
};

TEST(CpuThreads, ReallyRunAtOnce) {
  Meeting meeting;
  std::atomic<int> alone{0};
  parallel_for(2, 2, [&](std::int64_t) {
    if (!meeting.attend()) ++alone;
  });
  EXPECT_EQ(alone, 0);
}

TEST(CpuThreads, ManyCallersWithNestedLoopsEachGetAllOfTheirOwn) {
  constexpr int kCallers = 4;
  constexpr int kRounds = 20;
  constexpr std::int64_t kOuter = 8;
  constexpr std::int64_t kInner = 16;
  std::vector<std::atomic<std::int64_t>> sums(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&sums, caller] {
      for (int round = 0; round < kRounds; ++round) {
        parallel_for(3, kOuter, [&](std::int64_t i) {
          parallel_for(2, kInner, [&](std::int64_t j) { sums[caller] += i * kInner + j; });
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  constexpr std::int64_t kTasks = kOuter * kInner;
  for (const auto& sum : sums) EXPECT_EQ(sum, kRounds * kTasks * (kTasks - 1) / 2);
}

TEST(CpuThreads, WhatTasksWroteIsSeenByTheCaller) {
  for (int round = 0; round < 50; ++round) {
    std::int64_t written[2] = {};  // plain memory: only the loop orders the accesses
    Meeting meeting;
    parallel_for(2, 2, [&](std::int64_t i) {
      meeting.attend();
      written[i] = round + i + 1;
    });
    ASSERT_EQ(written[0], round + 1);
    ASSERT_EQ(written[1], round + 2);
  }
}

#ifdef __x86_64__
// A caller with the floating-point modes that many programs set for speed.
class FlushingCaller {
 public:
  FlushingCaller() : saved_(_mm_getcsr()) { _mm_setcsr(kFlushing); }
  ~FlushingCaller() { _mm_setcsr(saved_); }
  FlushingCaller(const FlushingCaller&) = delete;
  FlushingCaller& operator=(const FlushingCaller&) = delete;
  static constexpr unsigned kFlushing = 0x1F80 | 0x8000 | 0x0040 | 0x6000;  // FTZ, DAZ, to zero

 private:
  unsigned saved_;
};

constexpr unsigned kControlBits = 0xFFC0;  // the rest are sticky flags

float half_of_smallest_normal() {
  volatile float smallest = 1.17549435e-38f;
  volatile float half = 0.5f;
  return smallest * half;
}

TEST(CpuThreads, KeepSubnormalsWhateverTheCallerSet) {
  for (int threads : {1, 4}) {
    const FlushingCaller flushing;
    ASSERT_EQ(half_of_smallest_normal(), 0.0f) << "the caller does flush";
    std::atomic<int> wrong{0};
    parallel_for(threads, 100, [&](std::int64_t) {
      if ((_mm_getcsr() & kControlBits) != 0x1F80) ++wrong;
      // Compared by bits: a comparison would itself read a subnormal as zero under DAZ.
      const float value = half_of_smallest_normal();
      if (std::bit_cast<std::uint32_t>(value) != 0x00400000u) ++wrong;
    });
    EXPECT_EQ(wrong, 0) << threads << " threads";
  }
}

TEST(CpuThreads, LeaveTheCallersEnvironmentAsItWas) {
  for (int threads : {1, 4}) {
    const FlushingCaller flushing;
    parallel_for(threads, 100, [](std::int64_t) {});
    EXPECT_EQ(_mm_getcsr() & kControlBits, FlushingCaller::kFlushing & kControlBits);
  }
}
#endif

TEST(DefaultThreads, AreThoseOfTheEnvironment) {
  for (const auto& [text, wanted] : {std::pair{"1", 1}, {"7", 7}, {"1024", 1024}}) {
    const ScopedVariable variable("OCTET_NUM_THREADS", text);
    EXPECT_EQ(default_threads(), wanted);
  }
}

TEST(DefaultThreads, AreTheCoresWhereTheEnvironmentSaysNothing) {
  const ScopedVariable variable("OCTET_NUM_THREADS", "");
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), kMaxThreads);
}

TEST(DefaultThreads, RefuseWhatIsNoCount) {
  for (const char* text : {"0", "-1", "1025", "two", "2x", " 2", "2 ", "99999999999999999999"}) {
    const ScopedVariable variable("OCTET_NUM_THREADS", text);
    try {
      default_threads();
      ADD_FAILURE() << "\"" << text << "\" was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.what(),
                "OCTET_NUM_THREADS must be a whole number between 1 and 1024, got \"" +
                    std::string(text) + "\"");
    }
  }
}

}  // namespace
}  // namespace octet
