#include "bench/report/record.hpp"

#include "core/message.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>

namespace octet::bench {
namespace {

std::string csv_field(const std::string& field) {
  const bool at_the_edge = !field.empty() && (field.front() == ' ' || field.back() == ' ');
  if (!at_the_edge && field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char letter : field) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

}  // namespace

std::string csv_line(const Row& row) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : ",") + csv_field(row[i]);
  return line + '\n';
}

std::string csv_text(const Row& header, const std::vector<Row>& rows) {
  std::string text = csv_line(header);
  for (const Row& row : rows) text += csv_line(row);
  return text;
}

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(file, content.data(), content.size());
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

std::string link_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  std::filesystem::path target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) return target.string();     // no link, or nothing
    target = target.parent_path() / next;  // an absolute `next` replaces all
  }
  return {};
}

int replace_file(const std::string& path, const std::string& beside, std::string_view content) {
  const std::string target = link_target(path);
  if (target.empty()) return ELOOP;
  // A file cannot be renamed to another file system.
  const std::string temporary = target == path ? beside : name_beside(target);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int reason = write_all(file, content);
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) reason = errno;
  if (reason != 0) std::remove(temporary.c_str());
  return reason;
}

std::string name_beside(const std::string& path) {
  // Not std::random_device, which in a static C++ runtime needs glibc 2.36.
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) number = static_cast<std::uint64_t>(::getpid());
  return text(path, '.', number, ".new");
}

}  // namespace octet::bench
