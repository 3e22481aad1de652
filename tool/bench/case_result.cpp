#include "tool/bench/case_result.hpp"

#include "tool/cases/random_layers.hpp"
#include "tool/console.hpp"
#include "tool/results/provenance.hpp"
#include "tool/results/result_file.hpp"
#include "tool/results/stored_results.hpp"

#include "bench/report/tables.hpp"
#include "bench/timing/machine_facts.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace octet::tool {
namespace {

// Clock, power, temperature and throttle.
bench::Row clock_fields(const CaseResult& result) {
  if (result.chosen.device.type == DeviceType::cpu) {
    return {number(bench::cpu_clock_mhz()), "", "", ""};
  }
  if (!result.times || !result.times->gpu) return bench::Row(4);
  const bench::GpuReading& gpu = *result.times->gpu;
  return {number(gpu.clock_mhz), number(gpu.power_w), number(gpu.temperature_c),
          bench::throttle_text(gpu.throttle)};
}

// Every FAIL and ERROR with its note and the command that repeats it.
void print_failures(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows,
                    const char* name_column, const std::vector<std::string>& repeats) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i]) continue;
    const bench::Record record(header, *rows[i]);
    if (record.at("Check") == "PASS") continue;
    fmt::print("{} {}: {}\n  repeat with: {}\n", record.at("Check"),
               printable(record.at(name_column)), printable(record.at("Note")), repeats[i]);
  }
}

// Prints "3 PASS, 0 FAIL, 0 ERROR". Returns the exit status.
int print_counts(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows) {
  Checks checks;
  for (const auto& row : rows) {
    if (row) checks.count(bench::Record(header, *row).at("Check"));
  }
  fmt::print("{}\n", checks.text());
  return checks.all_passed() ? 0 : kExitFailed;
}

}  // namespace

RowLayout layout_of(RowKind rows, const std::string& baseline) {
  switch (rows) {
    case RowKind::layer: return layer_layout(baseline);
    case RowKind::grouped: return grouped_layout();
    case RowKind::cast: return cast_layout();
    case RowKind::memory: return memory_layout();
    case RowKind::head: return head_layout();
    case RowKind::update: return update_layout();
    case RowKind::attention: return attention_layout(baseline);
    default: return mlp_layout();
  }
}

int print_summary(const RowLayout& layout, const std::vector<std::optional<bench::Row>>& rows,
                  const std::vector<std::string>& repeats, bool wide) {
  const std::vector<bench::Row> done = done_rows(rows);
  print_table(layout.table(layout.header, done), 1, wide);
  print_failures(layout.header, rows, layout.name_column, repeats);
  fmt::print("{}", bench::score_text(layout.header, done, [](const bench::Record& row) {
               return random_group(row.at("Case"));
             }));
  return print_counts(layout.header, rows);
}

bench::Row place_fields(const CaseResult& result) {
  const Device device = result.chosen.device;
  if (device.type == DeviceType::cpu) return {result.test_id, "cpu", "none"};
  return {result.test_id, "cuda", cuda::properties(device.index).name};
}

bench::Row step_fields(const CaseResult& result, double forward_operations) {
  if (!result.times) return bench::Row(6);
  const double forward = result.seconds(0);
  const double backward = result.seconds(1);
  bench::Row fields;
  for (const auto& [parts, seconds] :
       {std::pair(1, forward), std::pair(2, backward), std::pair(3, forward + backward)}) {
    append(fields, {number(seconds * 1e3), number(parts * forward_operations / seconds / 1e12)});
  }
  return fields;
}

bench::Row baseline_fields(const CaseResult& result) {
  bench::Row fields{result.baseline};
  if (!result.comparison) {
    append(fields, bench::Row(6));
    return fields;
  }
  const bench::Comparison& comparison = *result.comparison;
  const double forward_ms = comparison.peer.median_seconds(0) * 1e3;
  const double backward_ms = comparison.peer.median_seconds(1) * 1e3;
  append(fields, {number(comparison.part_ratios[0]), number(comparison.part_ratios[1]),
                  number(comparison.ratio), number(forward_ms), number(backward_ms),
                  number(forward_ms + backward_ms)});
  return fields;
}

bench::Row run_fields(const CaseResult& result) {
  const auto& times = result.times;
  return {result.implementation,
          result.configuration,
          std::to_string(this_machine(kCpu, result.data.threads).threads),
          times ? std::to_string(times->warmup) : "",
          times ? std::to_string(times->iterations()) : "",
          times ? number(times->spread() * 100) : "",
          result.note};
}

bench::Row origin_fields(const CaseResult& result) {
  bench::Row fields{commit(), device_sources(digest_of(result.command, result.configuration)),
                    cpu_model()};
  append(fields, clock_fields(result));
  append(fields, {std::to_string(result.data.seed), result.command});
  return fields;
}

double least_snr_db(const GateReport& gates, bool gradients) {
  double least = std::nan("");
  for (const GateResult& gate : gates.results) {
    if ((gate.tensor.rfind('d', 0) == 0) == gradients) least = std::fmin(least, gate.snr_db);
  }
  return least;
}

}  // namespace octet::tool
