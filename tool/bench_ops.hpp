// The operators that can be benchmarked: `octet bench OP`, alone or as a task of a suite.
#pragma once

#include "commands.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct BenchOp {
  std::string name;
  void (*add)(CLI::App& bench, Chosen& chosen);
};

const std::vector<BenchOp>& bench_ops();

}  // namespace octet::tool
