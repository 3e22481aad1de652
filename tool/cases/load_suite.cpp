#include "tool/cases/suites.hpp"
#include "tool/results/text_file.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.find('.') != std::string::npos;
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
  return parse_cases(
      read_text_file("--suite", name_or_path, "a CSV file of cases or the name of a suite"),
      name_or_path);
}

}  // namespace octet::tool
