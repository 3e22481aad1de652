#include "cpu/threads.hpp"

#include "core/message.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace octet {
namespace {

// One parallel_for: the next index to take, and how many are done.
struct Loop {
  const std::function<void(std::int64_t)>* task = nullptr;
  std::int64_t count = 0;
  int helpers_wanted = 0;  // guarded by the pool's mutex
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
  std::mutex mutex;
  std::condition_variable finished;

  void work() {
    const IeeeArithmetic ieee;
    std::int64_t completed = 0;
    for (std::int64_t i = next++; i < count; i = next++) {
      (*task)(i);
      ++completed;
    }
    if (completed > 0 && done.fetch_add(completed) + completed == count) {
      const std::lock_guard lock(mutex);
      finished.notify_all();
    }
  }

  void wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [this] { return done.load() == count; });
  }
};

class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  void run(int threads, std::int64_t count, const std::function<void(std::int64_t)>& task) {
    const auto loop = std::make_shared<Loop>();
    loop->task = &task;
    loop->count = count;
    {
      const std::lock_guard lock(mutex_);
      loop->helpers_wanted = static_cast<int>(std::min<std::int64_t>(threads, count)) - 1;
      start_workers(loop->helpers_wanted);
      loops_.push_back(loop);
    }
    wake_.notify_all();
    loop->work();
    loop->wait();
    const std::lock_guard lock(mutex_);
    std::erase(loops_, loop);
  }

 private:
  Pool() = default;
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  // If the system cannot start more threads, the caller does their work.
  void start_workers(int wanted) {
    try {
      while (static_cast<int>(workers_.size()) < wanted) {
        workers_.emplace_back([this] { serve(); });
      }
    } catch (const std::system_error&) {
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto found = std::find_if(loops_.begin(), loops_.end(),
                                      [](const auto& loop) { return loop->helpers_wanted > 0; });
      if (found == loops_.end()) {
        wake_.wait(lock);
        continue;
      }
      const std::shared_ptr<Loop> loop = *found;
      --loop->helpers_wanted;
      lock.unlock();
      loop->work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Loop>> loops_;
  std::vector<std::thread> workers_;
  bool stopping_ = false;
};

}  // namespace

int default_threads() {
  if (const char* value = std::getenv("OCTET_NUM_THREADS"); value != nullptr && *value != '\0') {
    int threads = 0;
    const char* end = value + std::strlen(value);
    const auto result = std::from_chars(value, end, threads);
    if (result.ec != std::errc{} || result.ptr != end || threads < 1 || threads > kMaxThreads) {
      refuse_argument("OCTET_NUM_THREADS must be a whole number between 1 and ", kMaxThreads,
                      ", got \"", value, "\"");
    }
    return threads;
  }
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    return std::clamp(CPU_COUNT(&cores), 1, kMaxThreads);
  }
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

#ifdef __x86_64__
IeeeArithmetic::IeeeArithmetic() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
IeeeArithmetic::~IeeeArithmetic() { _mm_setcsr(saved_); }
#else
IeeeArithmetic::IeeeArithmetic() = default;
IeeeArithmetic::~IeeeArithmetic() = default;
#endif

void parallel_for(int threads, std::int64_t count, const std::function<void(std::int64_t)>& task) {
  if (count <= 0) return;
  if (threads <= 1 || count == 1) {
    const IeeeArithmetic ieee;
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  Pool::instance().run(threads, count, task);
}

}  // namespace octet
