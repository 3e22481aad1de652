#include "tool/results/text_file.hpp"

#include "tool/options/usage_error.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace octet::tool {
namespace {

// A list of cases is some kilobytes; more is another file, given by mistake.
constexpr std::uintmax_t kMostBytes = 64 << 20;

}  // namespace

std::string text_if_any(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string read_text_file(const std::string& option, const std::string& path,
                           const std::string& wanted) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    refuse_usage("{} {}: is a folder, wanted {}", option, path, wanted);
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    refuse_usage("{} {}: {} bytes is too long for {}", option, path, bytes, wanted);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{} {}: {}; wanted {}", option, path, std::strerror(errno), wanted);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace octet::tool
