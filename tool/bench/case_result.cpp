#include "tool/bench/case_result.hpp"

#include "tool/console.hpp"
#include "tool/results/provenance.hpp"
#include "tool/results/record.hpp"
#include "tool/results/stored_results.hpp"

#include "bench/report/result_columns.hpp"
#include "bench/report/result_table.hpp"
#include "bench/timing/gpu_monitor.hpp"
#include "bench/timing/host.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

#include <fmt/args.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

namespace octet::tool {
namespace {

// Clock, power, temperature and throttle.
CsvRow clock_fields(const CaseResult& result) {
  if (result.chosen.device.type == DeviceType::cpu) {
    return {number(bench::cpu_clock_mhz()), "", "", ""};
  }
  if (!result.times || !result.times->gpu) return CsvRow(4);
  const bench::GpuReading& gpu = *result.times->gpu;
  return {number(gpu.clock_mhz), number(gpu.power_w), number(gpu.temperature_c),
          bench::throttle_text(gpu.throttle)};
}

// Every FAIL and ERROR with its note and the command that repeats it.
void print_failures(const CsvRow& header, const std::vector<std::optional<CsvRow>>& rows,
                    const char* name_column, const std::vector<std::string>& repeats) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i]) continue;
    const Record record(header, *rows[i]);
    if (record.at("Check") == "PASS") continue;
    fmt::print("{} {}: {}\n  repeat with: {}\n", record.at("Check"), record.at(name_column),
               record.at("Note"), repeats[i]);
  }
}

// "3 PASS, 0 FAIL, 0 ERROR". The exit status.
int print_counts(const CsvRow& header, const std::vector<std::optional<CsvRow>>& rows) {
  Checks checks;
  for (const auto& row : rows) {
    if (row) checks.count(Record(header, *row).at("Check"));
  }
  fmt::print("{}\n", checks.text());
  return checks.all_passed() ? 0 : kExitFailed;
}

void print_scores(const RowLayout& layout, const std::vector<CsvRow>& rows) {
  for (const RowLayout::Score& score : layout.scores) {
    const auto mean_of = [&](const char* column) {
      return bench::geometric_mean_of(layout.header, rows, column);
    };
    if (std::isnan(mean_of(score.columns.front()))) continue;
    fmt::dynamic_format_arg_store<fmt::format_context> means;
    for (const char* column : score.columns) means.push_back(mean_of(column));
    fmt::print("{}", fmt::vformat(score.text, means));
  }
}

}  // namespace

RowLayout layout_of(RowKind rows, const std::string& baseline) {
  switch (rows) {
    case RowKind::layer: return layer_layout(baseline);
    case RowKind::cast: return cast_layout();
    case RowKind::memory: return memory_layout();
    default: return mlp_layout();
  }
}

int print_summary(const RowLayout& layout, const std::vector<std::optional<CsvRow>>& rows,
                  const std::vector<std::string>& repeats) {
  const std::vector<CsvRow> done = done_rows(rows);
  print_table(layout.table(layout.header, done), layout.left_columns);
  print_failures(layout.header, rows, layout.name_column, repeats);
  print_scores(layout, done);
  return print_counts(layout.header, rows);
}

std::string number(double value) { return bench::number(value); }

void append(CsvRow& row, CsvRow&& more) {
  row.insert(row.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string option_of(const std::string& arguments, const std::string& option) {
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (word == option && words >> word) return word;
  }
  return {};
}

std::string other_options(const std::string& arguments) {
  std::istringstream words(arguments);
  std::string word;
  words >> word;
  std::vector<std::string> kept;
  while (words >> word) {
    if (word == "--shape" || word == "--dtype" || word == "--device") {
      words >> word;
    } else {
      kept.push_back(word);
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

CsvRow place_fields(const CaseResult& result) {
  const Device device = result.chosen.device;
  if (device.type == DeviceType::cpu) return {result.test_id, "cpu", "none"};
  return {result.test_id, "cuda", cuda::properties(device.index).name};
}

CsvRow step_fields(const CaseResult& result, double forward_operations) {
  if (!result.times) return CsvRow(6);
  const double forward = result.seconds(0);
  const double backward = result.seconds(1);
  CsvRow fields;
  for (const auto& [parts, seconds] :
       {std::pair(1, forward), std::pair(2, backward), std::pair(3, forward + backward)}) {
    append(fields, {number(seconds * 1e3), number(parts * forward_operations / seconds / 1e12)});
  }
  return fields;
}

CsvRow run_fields(const CaseResult& result) {
  const auto& times = result.times;
  return {result.implementation,
          result.configuration,
          std::to_string(this_machine(kCpu, result.data.threads).threads),
          times ? std::to_string(times->warmup) : "",
          times ? std::to_string(times->iterations()) : "",
          times ? number(times->spread() * 100) : "",
          result.note};
}

CsvRow origin_fields(const CaseResult& result) {
  CsvRow fields{commit(), device_sources(result.op), bench::cpu_model()};
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
