#include "bench/report/tables.hpp"
#include "bench/timing/machine_facts.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

#include <octet/bench/metrics.hpp>
#include <octet/bench/report.hpp>

#include <cstdio>
#include <cstring>
#include <fstream>

namespace octet::bench {

// The rows behind a Report.
struct Report::State {
  enum class Kind { none, product, cast };

  KernelInfo kernel{};
  Kind kind = Kind::none;
  Row header{};
  std::vector<Row> rows{};

  void add_product(const GemmCase& product, const Verdict& verdict, const Samples& times,
                   const Comparison* beside);
  void add_cast(const MemoryCase& shape, const Verdict& verdict, const Samples& times,
                const Comparison* beside);

  // Adds a row with the columns of both kinds. Throws Error if the rows before are of the other
  // kind, or if a PASS has no times or times of too many parts.
  void begin_row(Kind kind_of_row, const Verdict& verdict, const Samples& times);
  void set(std::string_view column, const std::string& field);      // in the last row
  void set_times(const std::string& prefix, const Samples& times);  // of a product
  std::string at(const Row& row, std::string_view column) const;
  std::string name_of(const Row& row) const;

  std::string text(bool colours, std::size_t width) const;
};

namespace {

// The command line of this program, which repeats a row.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::string in_ms(double seconds) { return number(seconds * 1e3); }

// Forward and, if any, backward.
double step_seconds(const Samples& times) {
  return times.median_seconds(0) + (times.parts.size() > 1 ? times.median_seconds(1) : 0);
}

// Drops the columns that are empty in every row. The first line has the titles.
void drop_empty_columns(std::vector<Row>& table) {
  for (std::size_t column = table[0].size(); column-- > 0;) {
    const bool empty = std::all_of(table.begin() + 1, table.end(), [&](const Row& row) {
      return row[column].empty() || row[column] == "-";
    });
    if (!empty) continue;
    for (Row& row : table) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
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
    header = kind == Kind::product ? gemm_columns(!kernel.baseline.empty()) : cast_columns();
  }
  if (kind != kind_of_row) {
    refuse_argument(
        "report: products and memory-bound kernels have columns of their own; "
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

void Report::State::add_product(const GemmCase& product, const Verdict& verdict,
                                const Samples& times, const Comparison* beside) {
  begin_row(Kind::product, verdict, times);
  set("Case", product.name);
  set("M", std::to_string(product.m));
  set("N", std::to_string(product.n));
  set("K", std::to_string(product.k));
  set("Dtype", product.dtype);
  set("Granularity", "none");
  set(product.dtype == "fp8" ? "Forward G1 SNR (dB)" : "Forward G4 SNR (dB)",
      number(verdict.snr_db));
  if (!verdict.pass) return;
  set_times("", times);
  const double rate = gemm_tflops(product.m, product.n, product.k, 1);  // of one product a second
  set("Forward TFLOPS", number(rate / times.median_seconds(0)));
  if (times.parts.size() > 1) set("Backward TFLOPS", number(2 * rate / times.median_seconds(1)));
  const int products = times.parts.size() > 1 ? 3 : 1;
  set("Combined Step TFLOPS", number(products * rate / step_seconds(times)));
  if (beside == nullptr || kernel.baseline.empty()) return;
  set("Baseline", kernel.baseline);
  set_times("Baseline ", beside->peer);
  set("Forward Ratio", number(beside->part_ratios[0]));
  if (times.parts.size() > 1) set("Backward Ratio", number(beside->part_ratios[1]));
  set("Combined Ratio", number(beside->ratio));
}

void Report::State::set_times(const std::string& prefix, const Samples& times) {
  set(prefix + "Forward Time (ms)", in_ms(times.median_seconds(0)));
  if (times.parts.size() > 1) {
    set(prefix + "Backward Time (ms)", in_ms(times.median_seconds(1)));
  }
  set(prefix + "Combined Step Time (ms)", in_ms(step_seconds(times)));
}

void Report::State::add_cast(const MemoryCase& shape, const Verdict& verdict, const Samples& times,
                             const Comparison* beside) {
  begin_row(Kind::cast, verdict, times);
  set("Rows", std::to_string(shape.rows));
  set("Cols", std::to_string(shape.cols));
  set("Dtype", std::string(octet::name(shape.dtype)));
  set("Bytes", std::to_string(shape.bytes));
  if (!verdict.pass) return;
  const double seconds = times.median_seconds();
  set("Time (ms)", in_ms(seconds));
  set("GB/s", number(gigabytes_per_second(shape.bytes, seconds)));
  if (beside == nullptr) return;
  const double copy_seconds = beside->peer.median_seconds();
  set("Memcpy Time (ms)", in_ms(copy_seconds));
  set("Memcpy GB/s", number(gigabytes_per_second(shape.bytes, copy_seconds)));
  set("Memcpy Ratio", number(beside->ratio));
}

std::string Report::State::text(bool colours, std::size_t width) const {
  if (rows.empty()) return "no results\n";
  std::vector<Row> table =
      kind == Kind::product ? gemm_table(header, rows) : cast_table(header, rows);
  drop_empty_columns(table);
  std::string result = table_text(table, {1, colours, width});
  std::size_t passed = 0;
  for (const Row& row : rows) {
    if (at(row, "Check") == "PASS") {
      ++passed;
    } else {
      result += octet::text(at(row, "Check"), ' ', name_of(row), ": ", at(row, "Note"), '\n');
    }
  }
  result += score_text(header, rows);
  return result + octet::text(passed, " PASS, ", rows.size() - passed, " FAIL, 0 ERROR\n");
}

Report::Report(KernelInfo kernel) : state_(std::make_unique<State>()) {
  if (kernel.name.empty()) refuse_argument("report: the kernel has no name");
  state_->kernel = std::move(kernel);
}
Report::~Report() = default;

void Report::add(const GemmCase& product, const Verdict& verdict, const Samples& times) {
  state_->add_product(product, verdict, times, nullptr);
}
void Report::add(const GemmCase& product, const Verdict& verdict, const Comparison& beside) {
  state_->add_product(product, verdict, beside.ours, &beside);
}
void Report::add(const MemoryCase& shape, const Verdict& verdict, const Samples& times) {
  state_->add_cast(shape, verdict, times, nullptr);
}
void Report::add(const MemoryCase& shape, const Verdict& verdict, const Comparison& beside) {
  state_->add_cast(shape, verdict, beside.ours, &beside);
}

bool Report::pass() const {
  const auto is_pass = [&](const Row& row) { return state_->at(row, "Check") == "PASS"; };
  return !state_->rows.empty() && std::all_of(state_->rows.begin(), state_->rows.end(), is_pass);
}

std::string Report::text() const { return state_->text(false, 0); }

int Report::print() const {
  std::fputs(state_->text(stdout_has_colours(), stdout_width()).c_str(), stdout);
  return pass() ? 0 : 1;
}

void Report::write_csv(const std::string& path) const {
  if (state_->rows.empty()) refuse_argument("report: there are no results to write to ", path);
  const int reason = replace_file(path, name_beside(path), csv_text(state_->header, state_->rows));
  if (reason == 0) return;
  fail(ErrorCode::file_error, "cannot write ", path, ": ", std::strerror(reason));
}

}  // namespace octet::bench
