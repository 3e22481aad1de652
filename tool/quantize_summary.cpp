// What a person sees of a run of `octet bench quantize`.
#include "console.hpp"
#include "quantize_row.hpp"
#include "record.hpp"
#include "run_plan.hpp"

#include "bench/result_table.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {

int print_quantize_summary(const std::vector<std::optional<CsvRow>>& rows,
                           const std::vector<std::string>& repeats) {
  const CsvRow header = quantize_header();
  const std::vector<CsvRow> done = done_rows(rows);
  print_table(bench::memory_table(header, done), 4);
  print_failures(header, rows, "Backend", repeats);
  const double ratio = bench::geometric_mean_of(header, done, "Memcpy Ratio");
  if (!std::isnan(ratio)) {
    fmt::print("score: {:.3f} of a copy of the same bytes, the geometric mean\n", ratio);
  }
  return print_counts(header, rows);
}

}  // namespace octet::tool
