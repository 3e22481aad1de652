// The operators that can be benchmarked and checked: `octet bench OP`, alone or as a task of a suite,
// and `octet check OP`.
#pragma once

#include "tool/commands.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct BenchOp {
  std::string name;
  void (*add)(CLI::App& bench, Chosen& chosen);
  void (*add_check)(CLI::App& check, Chosen& chosen);
};

const std::vector<BenchOp>& bench_ops();

}  // namespace octet::tool
