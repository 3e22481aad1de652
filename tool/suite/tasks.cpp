#include "tool/suite/tasks.hpp"

#include "tool/cases/yaml_map.hpp"
#include "tool/options/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace octet::tool {
namespace {

constexpr std::size_t kLongestLabel = 100;  // it is part of file names
constexpr std::int64_t kMostShards = 1000;
// Options that the suite itself passes to every task.
constexpr std::array<std::string_view, 10> kOwnOptions{
    "device",      "fresh",      "help", "json",   "list",
    "max-seconds", "num-shards", "o",    "output", "shard-id"};

bool is_name(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kLongestLabel && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  more.find(c) != std::string_view::npos;
         });
}

// One option as words of a command line. The value is joined to the name, so that it cannot be
// mistaken for another option.
std::vector<std::string> option_words(const std::string& key, const YAML::Node& value,
                                      std::string_view source) {
  const std::string wanted = fmt::format("option {}: a text, a list of them, true or false", key);
  if (value.IsSequence()) {
    std::vector<std::string> words;
    for (const YAML::Node& entry : value) {
      words.push_back(fmt::format("--{}={}", key, yaml_text(entry, source, wanted)));
    }
    return words;
  }
  const std::string text = yaml_text(value, source, wanted);
  if (text == "false") return {};
  return {text == "true" ? "--" + key : fmt::format("--{}={}", key, text)};
}

std::vector<std::string> read_options(const YAML::Node& node, std::string_view source) {
  std::vector<std::string> arguments;
  for_each_key(
      node, source, "options",
      [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
        if (!is_name(key, "-")) {
          refuse_at(key_node, source, "\"{}\": wanted the name of an option without dashes", key);
        }
        if (std::find(kOwnOptions.begin(), kOwnOptions.end(), key) != kOwnOptions.end()) {
          refuse_at(key_node, source, "option {} cannot be given: the suite gives it itself", key);
        }
        for (std::string& word : option_words(key, value, source)) {
          arguments.push_back(std::move(word));
        }
      });
  return arguments;
}

int read_shards(const YAML::Node& node, std::string_view source) {
  std::int64_t shards = 0;
  if (!node.IsScalar() || !parse_whole(node.Scalar(), 1, kMostShards, shards)) {
    refuse_at(node, source, "shards must be a whole number between 1 and {}", kMostShards);
  }
  return static_cast<int>(shards);
}

std::string read_label(const YAML::Node& node, std::string_view source) {
  const std::string label = yaml_text(node, source, "label");
  if (!is_name(label, "_-")) {
    refuse_at(node, source, "label must be at most {} letters, digits, _ and -, got \"{}\"",
              kLongestLabel, label);
  }
  return label;
}

Task read_task(const YAML::Node& node, std::string_view source) {
  Task task;
  task.place = place_of(node, source);
  read_map(
      node, source, "a task",
      {{"label", [&](const YAML::Node& value) { task.label = read_label(value, source); }},
       {"op", [&](const YAML::Node& value) { task.op = yaml_text(value, source, "op"); }},
       {"options", [&](const YAML::Node& value) { task.arguments = read_options(value, source); }},
       {"shards", [&](const YAML::Node& value) { task.shards = read_shards(value, source); }}});
  if (task.label.empty()) refuse_at(node, source, "a task must have a label");
  if (task.op.empty()) refuse_at(node, source, "task {} must have an op", task.label);
  return task;
}

TaskGroup read_group(const std::string& name, const YAML::Node& node, std::string_view source) {
  TaskGroup group;
  group.name = name;
  read_map(
      node, source, "group " + name,
      {{"about", [&](const YAML::Node& value) { group.about = yaml_text(value, source, "about"); }},
       {"tasks", [&](const YAML::Node& value) {
          group.tasks = yaml_list(value, source, "tasks", [&](const YAML::Node& entry) {
            return read_task(entry, source);
          });
        }}});
  if (group.tasks.empty()) refuse_at(node, source, "group {} has no tasks", name);
  return group;
}

void require_unique_labels(const std::vector<TaskGroup>& groups) {
  std::map<std::string, std::string> places;
  for (const TaskGroup& group : groups) {
    for (const Task& task : group.tasks) {
      const auto [first, added] = places.emplace(task.label, task.place);
      if (!added) {
        refuse_usage("{}: the label {} is taken by the task at {}", task.place, task.label,
                     first->second);
      }
    }
  }
}

}  // namespace

std::vector<TaskGroup> parse_tasks(const std::string& text, std::string_view source) {
  std::vector<TaskGroup> groups;
  const auto add_group = [&](const std::string& name, const YAML::Node& /*key*/,
                             const YAML::Node& value) {
    groups.push_back(read_group(name, value, source));
  };
  const YAML::Node root = load_yaml(text, source);
  read_map(root, source, "the file", {{"groups", [&](const YAML::Node& node) {
                                         for_each_key(node, source, "groups", add_group);
                                       }}});
  if (groups.empty()) refuse_at(root, source, "there are no groups");
  require_unique_labels(groups);
  return groups;
}

std::vector<Task> tasks_of(const std::vector<TaskGroup>& groups,
                           const std::vector<std::string>& names) {
  std::vector<std::string> known;
  known.reserve(groups.size());
  for (const TaskGroup& group : groups) known.push_back(group.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse_usage("no group is called \"{}\"; there are: {}", name, fmt::join(known, ", "));
    }
  }
  std::vector<Task> tasks;
  for (const TaskGroup& group : groups) {
    if (!names.empty() && std::find(names.begin(), names.end(), group.name) == names.end()) {
      continue;
    }
    tasks.insert(tasks.end(), group.tasks.begin(), group.tasks.end());
  }
  return tasks;
}

}  // namespace octet::tool
