#include "bench/report/record.hpp"

#include "core/message.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>

namespace octet::bench {
namespace {

std::string csv_field(const std::string& field) {
  const bool at_the_edge = !field.empty() && (field.front() == ' ' || field.back() == ' ');
  if (!at_the_edge && field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char letter : field) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

// Returns 0 or an errno.
int write_to(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(file, content.data(), content.size());
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
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

int replace_file(const std::string& path, const std::string& beside, std::string_view content) {
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int reason = write_to(file, content);
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::rename(beside.c_str(), path.c_str()) != 0) reason = errno;
  if (reason != 0) std::remove(beside.c_str());
  return reason;
}

std::string name_beside(const std::string& path) {
  std::random_device random;
  return text(path, '.', random(), random(), ".new");
}

}  // namespace octet::bench
