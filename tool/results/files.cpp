#include "tool/results/files.hpp"

#include "tool/options/usage_error.hpp"

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace octet::tool {
namespace {

// A list of cases is some kilobytes; anything this large is another file, given by mistake.
constexpr std::uintmax_t kMostBytes = 64 << 20;

}  // namespace

std::string text_if_any(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string read_text_file(const std::string& given, const std::string& path,
                           const std::string& wanted) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    refuse_usage("{}: is a folder, wanted {}", given, wanted);
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    refuse_usage("{}: {} bytes is too long for {}", given, bytes, wanted);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{}: {}; wanted {}", given, std::strerror(errno), wanted);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    refuse_usage("{} {}: is a folder, wanted a file to write", option, path);
  }
  if (!std::filesystem::exists(path, ignored)) return {};
  // Writing renames a file into place, which would replace a device or a pipe.
  if (!std::filesystem::is_regular_file(path, ignored)) {
    refuse_usage("{} {}: is not a regular file, wanted a file to write", option, path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{} {}: {}", option, path, std::strerror(errno));
  std::string beginning(bytes, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(bytes));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return beginning;
}

void refuse_to_replace(const std::string& option, const std::string& path,
                       const std::string& wanted) {
  refuse_usage("{} {}: does not hold {} and is not replaced; give another file", option, path,
               wanted);
}

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
