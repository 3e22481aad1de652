#include "tool/cases/yaml_map.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace octet::tool {
namespace {

std::string place(const YAML::Mark& mark, std::string_view source) {
  if (mark.is_null()) return std::string(source);
  return fmt::format("{}:{}:{}", source, mark.line + 1, mark.column + 1);
}

// For a text that ends too early yaml-cpp knows only the line.
YAML::Mark mark_of(const YAML::Exception& error, const std::string& text) {
  YAML::Mark mark = error.mark;
  const auto last_line = std::count(text.begin(), text.end(), '\n');
  if (mark.pos > 0 && mark.column == 0 && mark.line == last_line) {
    mark.column = static_cast<int>(text.size() - (text.rfind('\n') + 1));  // npos + 1 is 0
  }
  return mark;
}

// Notes where the latest document begins and ignores what is in it.
class DocumentStart : public YAML::EventHandler {
 public:
  YAML::Mark mark;

  void OnDocumentStart(const YAML::Mark& begin) override { mark = begin; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll would find further documents too, but never returns on some texts with a NUL.
void require_one_document(const std::string& text, std::string_view source) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart start;
  if (parser.HandleNextDocument(start) && parser.HandleNextDocument(start)) {
    refuse_usage("{}: a second document begins here, wanted one", place(start.mark, source));
  }
}

}  // namespace

std::string place_of(const YAML::Node& node, std::string_view source) {
  return place(node.Mark(), source);
}

YAML::Node load_yaml(const std::string& text, std::string_view source) {
  try {
    YAML::Node node = YAML::Load(text);
    require_one_document(text, source);
    return node;
  } catch (const YAML::Exception& error) {
    refuse_usage("{}: not YAML: {}", place(mark_of(error, text), source), error.msg);
  }
}

std::string yaml_text(const YAML::Node& node, std::string_view source, std::string_view what) {
  if (!node.IsScalar() || node.Scalar().empty()) {
    refuse_at(node, source, "{} must be a text", what);
  }
  return node.Scalar();
}

std::int64_t yaml_whole(const YAML::Node& node, std::string_view source, std::string_view what,
                        std::int64_t most) {
  std::int64_t value = 0;
  if (!node.IsScalar() || !parse_whole(node.Scalar(), 1, most, value)) {
    refuse_at(node, source, "{} must be a whole number between 1 and {}", what, most);
  }
  return value;
}

bool yaml_bool(const YAML::Node& node, std::string_view source, std::string_view what) {
  if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) {
    refuse_at(node, source, "{} must be true or false", what);
  }
  return node.Scalar() == "true";
}

void for_each_key(const YAML::Node& node, std::string_view source, std::string_view what,
                  const std::function<void(const std::string& key, const YAML::Node& key_node,
                                           const YAML::Node& value)>& read) {
  if (!node.IsMap()) refuse_at(node, source, "{} must be a map", what);
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = yaml_text(entry.first, source, "a key");
    if (!seen.insert(key).second) {
      refuse_at(entry.first, source, "{} has \"{}\" twice", what, key);
    }
    read(key, entry.first, entry.second);
  }
}

void read_map(const YAML::Node& node, std::string_view source, std::string_view what,
              const YamlKeys& keys) {
  for_each_key(node, source, what,
               [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
                 const auto known = keys.find(key);
                 if (known == keys.end()) {
                   std::vector<std::string> names;
                   for (const auto& [name, read] : keys) names.push_back(name);
                   refuse_at(key_node, source, "{} has the unknown key \"{}\"; there are: {}", what,
                             key, fmt::join(names, ", "));
                 }
                 known->second(value);
               });
}

}  // namespace octet::tool
