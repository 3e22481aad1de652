// Rows that tell of one thing: the same operator, problem, device and backend, over all files.
#pragma once

#include "tool/results/parsed_results.hpp"
#include "tool/results/stored_results.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct ResultGroup {
  const ResultKind* kind = nullptr;
  std::string problem;
  std::string device;
  std::string backend;
  std::string model;  // empty: of all
  Checks checks{};
  std::vector<double> means;  // geometric, of every rate over the rows that are PASS; NaN of none

  std::size_t count() const { return checks.passed + checks.failed + checks.errors; }
};

// In the order of the files and rows; the groups of a group's models follow it where there are two
// or more.
std::vector<ResultGroup> group_results(const ResultFolder& folder);

}  // namespace octet::tool
