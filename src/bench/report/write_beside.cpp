#include "bench/report/write_beside.hpp"

#include "core/message.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

namespace octet::bench {
namespace {

// 0, or what went wrong.
int write_to(int file, const std::string& content) {
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t count = ::write(file, content.data() + written, content.size() - written);
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) written += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace

void write_beside(const std::string& path, const std::string& content) {
  // Another name for each writer, on whatever machine it is.
  std::random_device random;
  const std::string beside = text(path, '.', random(), random(), ".new");
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) fail(ErrorCode::device_error, "cannot write ", path, ": ", std::strerror(errno));
  int reason = write_to(file, content);
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::rename(beside.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return;
  std::remove(beside.c_str());
  fail(ErrorCode::device_error, "cannot write ", path, ": ", std::strerror(reason));
}

}  // namespace octet::bench
