#include "suites.hpp"
#include "usage_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace octet::tool {
namespace {

// A list of cases is some kilobytes; more is another file, given by mistake.
constexpr std::uintmax_t kMostBytes = 64 << 20;

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.find('.') != std::string::npos;
}

std::string read_text_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    refuse_usage("--suite {}: is a folder, wanted a CSV file of cases", path);
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    refuse_usage("--suite {}: {} bytes is too long for a CSV file of cases", path, bytes);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    refuse_usage("--suite {}: {}; wanted a CSV file of cases or the name of a suite", path,
                 std::strerror(errno));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::vector<LayerCase> load_suite(const std::string& name_or_path) {
  const std::vector<Suite> suites =
      parse_suites(std::string(embedded_case_file("suites.yaml")), "suites.yaml");
  std::vector<std::string> names;
  for (const Suite& suite : suites) {
    if (same_name(suite.name, name_or_path)) {
      return suite_cases(suite, embedded_case_file(suite.source));
    }
    names.push_back(suite.name);
  }
  if (!looks_like_a_path(name_or_path)) {
    refuse_usage("no suite is called \"{}\"; there are: {}; or give a CSV file of cases",
                 name_or_path, fmt::join(names, ", "));
  }
  return parse_cases(read_text_file(name_or_path), name_or_path);
}

}  // namespace octet::tool
