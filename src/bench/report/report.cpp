#include "bench/report/report_state.hpp"
#include "bench/report/result_columns.hpp"
#include "bench/report/result_table.hpp"
#include "core/message.hpp"

#include <octet/bench/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace octet::bench {
namespace {

std::string in_ms(double seconds) { return number(seconds * 1e3); }

// Forward and, where there is one, backward.
double step_seconds(const Samples& times) {
  return times.median_seconds(0) + (times.parts.size() > 1 ? times.median_seconds(1) : 0);
}

// Columns that no row has say nothing. The first line has the titles.
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

Report::Report(KernelInfo kernel) : state_(std::make_unique<State>()) {
  if (kernel.name.empty()) refuse_argument("report: the kernel has no name");
  state_->kernel = std::move(kernel);
}
Report::~Report() = default;

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

void Report::State::add_memory(const MemoryCase& shape, const Verdict& verdict,
                               const Samples& times, const Comparison* beside) {
  begin_row(Kind::memory, verdict, times);
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

void Report::add(const GemmCase& product, const Verdict& verdict, const Samples& times) {
  state_->add_product(product, verdict, times, nullptr);
}
void Report::add(const GemmCase& product, const Verdict& verdict, const Comparison& beside) {
  state_->add_product(product, verdict, beside.ours, &beside);
}
void Report::add(const MemoryCase& shape, const Verdict& verdict, const Samples& times) {
  state_->add_memory(shape, verdict, times, nullptr);
}
void Report::add(const MemoryCase& shape, const Verdict& verdict, const Comparison& beside) {
  state_->add_memory(shape, verdict, beside.ours, &beside);
}

bool Report::pass() const {
  const auto is_pass = [&](const Row& row) { return state_->at(row, "Check") == "PASS"; };
  return !state_->rows.empty() && std::all_of(state_->rows.begin(), state_->rows.end(), is_pass);
}

std::string Report::State::score_line() const {
  const bool products = kind == Kind::product;
  const char* column = products ? "Combined Step TFLOPS" : "Memcpy Ratio";
  const double score = geometric_mean_of(header, rows, column);
  if (std::isnan(score)) return {};
  return "score: " + digits(score, 4) +
         (products ? " TFLOPS, the geometric mean of Combined Step TFLOPS\n"
                   : " of a copy of the same bytes, the geometric mean\n");
}

std::string Report::State::text(bool colours) const {
  if (rows.empty()) return "no results\n";
  std::vector<Row> table =
      kind == Kind::product ? gemm_table(header, rows) : memory_table(header, rows);
  drop_empty_columns(table);
  std::string result = table_text(table, 2, colours);
  std::size_t passed = 0;
  for (const Row& row : rows) {
    if (at(row, "Check") == "PASS") {
      ++passed;
    } else {
      result += octet::text(at(row, "Check"), ' ', name_of(row), ": ", at(row, "Note"), '\n');
    }
  }
  result += score_line();
  return result + octet::text(passed, " PASS, ", rows.size() - passed, " FAIL, 0 ERROR\n");
}

std::string Report::text() const { return state_->text(false); }

int Report::print() const {
  std::fputs(state_->text(stdout_has_colours()).c_str(), stdout);
  return pass() ? 0 : 1;
}

void Report::write_csv(const std::string& path) const { state_->write_csv(path); }

}  // namespace octet::bench
