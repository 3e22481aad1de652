// One row of a CSV, its fields by the names of their columns.
#pragma once

#include "tool/results/csv.hpp"

#include "bench/report/record.hpp"

#include <optional>

namespace octet::tool {

using bench::Record;

// Those of the cases that have been run.
inline std::vector<CsvRow> done_rows(const std::vector<std::optional<CsvRow>>& rows) {
  std::vector<CsvRow> done;
  for (const auto& row : rows) {
    if (row) done.push_back(*row);
  }
  return done;
}

}  // namespace octet::tool
