// YAML maps with a fixed set of keys. Unknown keys and bad values are refused with their line and
// column.
#pragma once

#include "tool/options/parse.hpp"

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// "tasks.yaml:12:9"
std::string place_of(const YAML::Node& node, std::string_view source);

template <class... Parts>
[[noreturn]] void refuse_at(const YAML::Node& node, std::string_view source,
                            fmt::format_string<Parts...> format, Parts&&... parts) {
  refuse_usage("{}: {}", place_of(node, source),
               fmt::format(format, std::forward<Parts>(parts)...));
}

// The document of `text`; a second one is refused.
YAML::Node load_yaml(const std::string& text, std::string_view source);

std::string yaml_text(const YAML::Node& node, std::string_view source, std::string_view what);
// A whole number between 1 and `most`.
std::int64_t yaml_whole(const YAML::Node& node, std::string_view source, std::string_view what,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max());
bool yaml_bool(const YAML::Node& node, std::string_view source, std::string_view what);

// Calls read(entry) for every entry of a list.
template <class Read>
auto yaml_list(const YAML::Node& node, std::string_view source, std::string_view what, Read read) {
  if (!node.IsSequence()) refuse_at(node, source, "{} must be a list", what);
  std::vector<decltype(read(node))> values;
  for (const YAML::Node& entry : node) values.push_back(read(entry));
  return values;
}

// Calls `read` for every key. A key may appear only once.
void for_each_key(const YAML::Node& node, std::string_view source, std::string_view what,
                  const std::function<void(const std::string& key, const YAML::Node& key_node,
                                           const YAML::Node& value)>& read);

// The allowed keys, each with the function that reads its value.
using YamlKeys = std::map<std::string, std::function<void(const YAML::Node&)>>;
void read_map(const YAML::Node& node, std::string_view source, std::string_view what,
              const YamlKeys& keys);

}  // namespace octet::tool
