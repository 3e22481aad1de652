#include "tool/bench/gemm_summary.hpp"

#include "tool/console.hpp"
#include "tool/bench/run_plan.hpp"

#include "bench/report/tables.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {

int print_gemm_summary(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows,
                       const std::vector<std::string>& repeats) {
  const std::vector<bench::Row> done = done_rows(rows);
  const auto mean_of = [&](std::string_view column) {
    return bench::geometric_mean_of(header, done, column);
  };
  print_table(bench::gemm_table(header, done), 2);
  print_failures(header, rows, "Case", repeats);
  const double rate = mean_of("Combined Step TFLOPS");
  if (!std::isnan(rate)) {
    fmt::print("score: {:.4g} TFLOPS, the geometric mean of Combined Step TFLOPS\n", rate);
  }
  for (const char* part : {"Forward", "Backward"}) {
    const double part_rate = mean_of(fmt::format("{} TFLOPS", part));
    if (!std::isnan(part_rate)) fmt::print("  {}: {:.4g} TFLOPS\n", part, part_rate);
  }
  const double ratio = mean_of("Combined Ratio");
  if (!std::isnan(ratio)) {
    fmt::print(
        "ratio: {:.3f}, the geometric mean of {}'s time over ours (forward {:.3f}, backward "
        "{:.3f})\n",
        ratio, bench::Record(header, done.back()).at("Baseline"), mean_of("Forward Ratio"),
        mean_of("Backward Ratio"));
  }
  return print_counts(header, rows);
}

}  // namespace octet::tool
