#include "suites.hpp"

#include "usage_error.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>

namespace octet::tool {
namespace {

std::int64_t whole_number(const YAML::Node& node, std::string_view source, std::string_view key) {
  std::int64_t value = 0;
  if (!node.IsScalar() ||
      !parse_whole(node.Scalar(), 1, std::numeric_limits<std::int64_t>::max(), value)) {
    refuse_usage("{}: {} must be a whole number of at least 1", source, key);
  }
  return value;
}

std::string plain_text(const YAML::Node& node, std::string_view source, std::string_view key) {
  if (!node.IsScalar()) refuse_usage("{}: {} must be a text", source, key);
  return node.Scalar();
}

template <class Read>
auto list_of(const YAML::Node& node, std::string_view source, std::string_view key, Read read) {
  if (!node.IsSequence()) refuse_usage("{}: {} must be a list", source, key);
  std::vector<decltype(read(node, source, key))> values;
  for (const YAML::Node& entry : node) values.push_back(read(entry, source, key));
  return values;
}

Suite parse_suite(const std::string& name, const YAML::Node& node, std::string_view source) {
  if (!node.IsMap()) refuse_usage("{}: suite {} must be a map with a source", source, name);
  Suite suite;
  suite.name = name;
  for (const auto& entry : node) {
    const std::string key = plain_text(entry.first, source, "a key");
    if (key == "about") {
      suite.about = plain_text(entry.second, source, key);
    } else if (key == "source") {
      suite.source = plain_text(entry.second, source, key);
    } else if (key == "models") {
      suite.models = list_of(entry.second, source, key, plain_text);
    } else if (key == "mbs") {
      suite.mbs = list_of(entry.second, source, key, whole_number);
    } else if (key == "tokens") {
      suite.tokens = whole_number(entry.second, source, key);
    } else {
      refuse_usage(
          "{}: suite {} has the unknown key \"{}\"; there are: about, source, models, "
          "mbs, tokens",
          source, name, key);
    }
  }
  if (suite.source.empty()) refuse_usage("{}: suite {} must name its source", source, name);
  return suite;
}

}  // namespace

std::vector<Suite> parse_suites(const std::string& text, std::string_view source) {
  try {
    const YAML::Node root = YAML::Load(text);
    const YAML::Node list = root.IsMap() ? root["suites"] : YAML::Node();
    if (!list.IsMap()) refuse_usage("{}: wanted a map called suites", source);
    std::vector<Suite> suites;
    for (const auto& entry : list) {
      suites.push_back(
          parse_suite(plain_text(entry.first, source, "a suite's name"), entry.second, source));
    }
    return suites;
  } catch (const YAML::Exception& error) {
    refuse_usage("{}: not YAML: {}", source, error.what());
  }
}

std::vector<LayerCase> suite_cases(const Suite& suite, std::string_view source_text) {
  std::vector<LayerCase> cases =
      select_cases(parse_cases(source_text, suite.source), suite.models, suite.mbs);
  if (suite.tokens) {
    for (LayerCase& layer : cases) layer.m = *suite.tokens;
  }
  return cases;
}

}  // namespace octet::tool
