// CPU threads of one call, and their arithmetic. Workers are started once and shared by every
// caller; a caller works on its own loop, so every caller makes progress even if all workers are
// busy.
#pragma once

#include <cstdint>
#include <functional>

namespace octet {

inline constexpr int kMaxThreads = 1024;

// OCTET_NUM_THREADS, or else the cores this process may use.
int default_threads();

// IEEE arithmetic for one scope: round to nearest, no flush to zero, exceptions masked.
class IeeeArithmetic {
 public:
  IeeeArithmetic();
  ~IeeeArithmetic();
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
  unsigned saved_ = 0;
};

// Calls task(0) ... task(count - 1), in any order, on up to `threads` threads, and returns when all
// have ended. Tasks run with IEEE arithmetic, whatever the caller's floating-point environment is,
// and must not throw.
void parallel_for(int threads, std::int64_t count, const std::function<void(std::int64_t)>& task);

}  // namespace octet
