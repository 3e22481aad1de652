#include "tool/cases/suites.hpp"

#include "tool/cases/yaml_map.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <limits>

namespace octet::tool {
namespace {

std::int64_t whole_number(const YAML::Node& node, std::string_view source, std::string_view key) {
  std::int64_t value = 0;
  if (!node.IsScalar() ||
      !parse_whole(node.Scalar(), 1, std::numeric_limits<std::int64_t>::max(), value)) {
    refuse_at(node, source, "{} must be a whole number of at least 1", key);
  }
  return value;
}

template <class Read>
auto list_of(const YAML::Node& node, std::string_view source, std::string_view key, Read read) {
  if (!node.IsSequence()) refuse_at(node, source, "{} must be a list", key);
  std::vector<decltype(read(node, source, key))> values;
  for (const YAML::Node& entry : node) values.push_back(read(entry, source, key));
  return values;
}

Suite parse_suite(const std::string& name, const YAML::Node& node, std::string_view source) {
  Suite suite;
  suite.name = name;
  read_map(
      node, source, "suite " + name,
      {{"about", [&](const YAML::Node& entry) { suite.about = yaml_text(entry, source, "about"); }},
       {"source",
        [&](const YAML::Node& entry) { suite.source = yaml_text(entry, source, "source"); }},
       {"models",
        [&](const YAML::Node& entry) {
          suite.models = list_of(entry, source, "models", yaml_text);
        }},
       {"mbs",
        [&](const YAML::Node& entry) { suite.mbs = list_of(entry, source, "mbs", whole_number); }},
       {"tokens",
        [&](const YAML::Node& entry) { suite.tokens = whole_number(entry, source, "tokens"); }}});
  if (suite.source.empty()) refuse_at(node, source, "suite {} must name its source", name);
  return suite;
}

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.find('.') != std::string::npos;
}

}  // namespace

std::vector<Suite> parse_suites(const std::string& text, std::string_view source) {
  std::vector<Suite> suites;
  const auto add_suite = [&](const std::string& name, const YAML::Node& /*key*/,
                             const YAML::Node& value) {
    suites.push_back(parse_suite(name, value, source));
  };
  read_map(load_yaml(text, source), source, "the file",
           {{"suites",
             [&](const YAML::Node& node) { for_each_key(node, source, "suites", add_suite); }}});
  return suites;
}

std::vector<LayerCase> suite_cases(const Suite& suite, std::string_view source_text) {
  std::vector<LayerCase> cases =
      select_cases(parse_cases(source_text, suite.source), suite.models, suite.mbs);
  if (suite.tokens) {
    for (LayerCase& layer : cases) layer.m = *suite.tokens;
  }
  return cases;
}

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
  return parse_cases(read_text_file("--suite " + name_or_path, name_or_path,
                                    "a CSV file of cases or the name of a suite"),
                     name_or_path);
}

}  // namespace octet::tool
