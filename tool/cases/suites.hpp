// Named lists of cases, defined in cases/suites.yaml.
#pragma once

#include "tool/cases/cases.hpp"

#include <optional>

namespace octet::tool {

struct Suite {
  std::string name;
  std::string about;
  std::string source;               // a CSV file of cases/
  std::vector<std::string> models;  // empty: all
  std::vector<std::int64_t> mbs;    // empty: all
  std::optional<std::int64_t> tokens;
};

// Throws UsageError that names `source` and what was wanted.
std::vector<Suite> parse_suites(const std::string& text, std::string_view source);

// The cases of a suite, selected from the text of its source.
std::vector<LayerCase> suite_cases(const Suite& suite, std::string_view source_text);

// The cases of a suite by name, or of a CSV file by path. Throws UsageError that lists the known
// suites.
std::vector<LayerCase> load_suite(const std::string& name_or_path);

}  // namespace octet::tool
