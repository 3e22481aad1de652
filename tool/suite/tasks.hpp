// The batches of `octet bench suite`, as cases/tasks.yaml spells them.
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
  std::string place;             // "tasks.yaml:12:9", for what is found wrong later
  std::vector<BenchCase> cases;  // which `octet bench suite` finds out of the arguments
};

struct TaskGroup {
  std::string name;
  std::string about;
  std::vector<Task> tasks;
};

// Throws UsageError that begins with `source`, line and column.
std::vector<TaskGroup> parse_tasks(const std::string& text, std::string_view source);

// The tasks of the groups named, in the order of the file; of every group where none is. Throws
// UsageError that lists the groups there are.
std::vector<Task> tasks_of(const std::vector<TaskGroup>& groups,
                           const std::vector<std::string>& names);

}  // namespace octet::tool
