// octet's own rows in groups of the same operator, problem, device and backend, over all files. Rows
// of other libraries are in no group: paired_ratios.hpp has them, case by case beside octet.
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
  double copy_share = 0;  // geometric mean of the step's share of copy bandwidth; NaN if unknown
};

// In the order of result_kinds(), files and rows. If a group has two or more
// models, and more shapes than models, a group per model follows it.
std::vector<ResultGroup> group_results(const ResultFolder& folder);

}  // namespace octet::tool
