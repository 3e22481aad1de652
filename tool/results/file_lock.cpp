#include "tool/results/file_lock.hpp"

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace octet::tool {

bool take_lock(int descriptor) {
  constexpr int kTries = 60;
  constexpr auto kPause = std::chrono::milliseconds(50);
  for (int i = 0; i < kTries; ++i) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(kPause);
  }
  errno = EWOULDBLOCK;  // sleeping may have set it
  return false;
}

}  // namespace octet::tool
