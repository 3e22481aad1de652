// What every row of a Report has, and the file they go to.
#include "bench/timing/gpu_monitor.hpp"
#include "bench/timing/host.hpp"
#include "bench/report/record.hpp"
#include "bench/report/report_state.hpp"
#include "bench/report/result_columns.hpp"
#include "bench/report/write_beside.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace octet::bench {
namespace {

// How this program was called: the command that repeats a row.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

// As RFC 4180 has it.
std::string csv_field(const std::string& field) {
  const bool at_the_edge = !field.empty() && (field.front() == ' ' || field.back() == ' ');
  if (!at_the_edge && field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char letter : field) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::string csv_line(const Row& row) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : ",") + csv_field(row[i]);
  return line + '\n';
}

}  // namespace

void Report::State::begin_row(Kind kind_of_row, const Verdict& verdict, const Samples& times) {
  const std::size_t most_parts = kind_of_row == Kind::product ? 2 : 1;
  if (verdict.pass && (times.parts.empty() || times.parts.size() > most_parts)) {
    refuse_argument("report: a PASS of ", kernel.name, " has the times of ", times.parts.size(),
                    " parts, wanted 1", most_parts == 2 ? " or 2" : "");
  }
  if (kind == Kind::none) {
    kind = kind_of_row;
    header = kind == Kind::product ? gemm_columns(!kernel.baseline.empty()) : memory_columns();
  }
  if (kind != kind_of_row) {
    refuse_argument(
        "report: products and kernels that memory bounds have columns of their own; "
        "give each a Report");
  }
  const bool on_cuda = kernel.device.type == DeviceType::cuda;
  rows.emplace_back(header.size());
  set("TestID", std::to_string(rows.size()));
  set("Platform", on_cuda ? "cuda" : "cpu");
  set("GPU", on_cuda ? cuda::properties(kernel.device.index).name : "none");
  set("Check", verdict.check());
  set("Backend", kernel.name);
  set("Configuration", kernel.configuration);
  set("Commit", kernel.version);
  set("CPU", cpu_model());
  set("Command", command_line());
  set("Note", verdict.note);
  if (!verdict.pass) return;
  set("Warmup", std::to_string(times.warmup));
  set("Iterations", std::to_string(times.iterations()));
  set("Spread (%)", number(times.spread() * 100));
  set("Note", times.note());
  if (!on_cuda) set("Clock (MHz)", number(cpu_clock_mhz()));
  if (times.gpu) {
    set("Clock (MHz)", number(times.gpu->clock_mhz));
    set("Power (W)", number(times.gpu->power_w));
    set("Temperature (C)", number(times.gpu->temperature_c));
    set("Throttle", throttle_text(times.gpu->throttle));
  }
}

void Report::State::set(std::string_view column, const std::string& field) {
  const auto found = std::find(header.begin(), header.end(), column);
  if (found == header.end()) fail(ErrorCode::internal, "report: there is no column ", column);
  rows.back()[static_cast<std::size_t>(found - header.begin())] = field;
}

std::string Report::State::at(const Row& row, std::string_view column) const {
  return Record(header, row).at(column);
}

std::string Report::State::name_of(const Row& row) const {
  return kind == Kind::product ? at(row, "Case") : at(row, "Rows") + "x" + at(row, "Cols");
}

void Report::State::write_csv(const std::string& path) const {
  if (rows.empty()) refuse_argument("report: there are no results to write to ", path);
  std::string content = csv_line(header);
  for (const Row& row : rows) content += csv_line(row);
  write_beside(path, content);
}

}  // namespace octet::bench
