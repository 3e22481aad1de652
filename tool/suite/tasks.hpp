// The tasks of `octet bench suite`, defined in cases/tasks.yaml.
#pragma once

#include "tool/results/stored_results.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct Task {
  std::string label;                   // unique in the file; letters, digits, _ and -
  std::string op;                      // of `octet bench OP`
  std::vector<std::string> arguments;  // "--shape=8x16x32"; true: "--prequantized"
  int shards = 1;
  std::string place;             // "tasks.yaml:12:9", for errors found later
  std::vector<BenchCase> cases;  // found from the arguments by `octet bench suite`
};

struct TaskGroup {
  std::string name;
  std::string about;
  std::vector<Task> tasks;
};

// Throws UsageError that begins with `source`, line and column.
std::vector<TaskGroup> parse_tasks(const std::string& text, std::string_view source);

// The tasks of the named groups, in the order of the file; of all groups if none is named. Throws
// UsageError that lists the groups.
std::vector<Task> tasks_of(const std::vector<TaskGroup>& groups,
                           const std::vector<std::string>& names);

}  // namespace octet::tool
