// Groups of rows with the same operator, problem, device and backend, over all files.
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
  std::string model;  // empty: all models
  Checks checks{};
  std::vector<double> means;  // geometric, of every rate over the PASS rows; NaN if there are none

  std::size_t count() const { return checks.passed + checks.failed + checks.errors; }
};

// In the order of files and rows. If a group has two or more models, a group per model follows it.
std::vector<ResultGroup> group_results(const ResultFolder& folder);

}  // namespace octet::tool
