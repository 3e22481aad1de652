#include "bench/report/tables.hpp"

#include "bench/timing/timing.hpp"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace octet::bench {
namespace {

// Groups of columns that the files share.

Row place_columns() { return {"TestID", "Platform", "GPU"}; }

Row step_columns() {
  return {"Forward Time (ms)", "Forward TFLOPS",          "Backward Time (ms)",
          "Backward TFLOPS",   "Combined Step Time (ms)", "Combined Step TFLOPS"};
}

Row run_columns() {
  return {"Backend", "Configuration", "Threads", "Warmup", "Iterations", "Spread (%)", "Note"};
}

// Where a row comes from, the clocks while it was timed, and how to repeat it.
Row origin_columns() {
  return {"Commit",          "Device Sources", "CPU",  "Clock (MHz)", "Power (W)",
          "Temperature (C)", "Throttle",       "Seed", "Command"};
}

Row joined(std::initializer_list<Row> groups) {
  Row row;
  for (const Row& group : groups) append(row, group);
  return row;
}

struct TableColumn {
  const char* title;
  const char* column;
};

std::vector<TableColumn> gemm_table_columns(bool with_baseline) {
  std::vector<TableColumn> columns{{"case", "Case"},
                                   {"check", "Check"},
                                   {"M", "M"},
                                   {"N", "N"},
                                   {"K", "K"},
                                   {"forward ms", "Forward Time (ms)"},
                                   {"TFLOPS", "Forward TFLOPS"},
                                   {"backward ms", "Backward Time (ms)"},
                                   {"TFLOPS", "Backward TFLOPS"},
                                   {"step TFLOPS", "Combined Step TFLOPS"},
                                   {"spread %", "Spread (%)"},
                                   {"SNR dB", "Forward G1 SNR (dB)"},
                                   {"f16 SNR dB", "f16 SNR (dB)"}};
  if (with_baseline) {
    columns.push_back({"forward ratio", "Forward Ratio"});
    columns.push_back({"backward ratio", "Backward Ratio"});
    columns.push_back({"combined ratio", "Combined Ratio"});
  }
  return columns;
}

// "1234", "12.35", "-": four digits are enough for a person.
std::string brief(const std::string& field) {
  if (field.empty()) return "-";
  double value = 0;
  const char* last = field.data() + field.size();
  const auto [end, error] = std::from_chars(field.data(), last, value);
  const bool is_number = error == std::errc() && end == last;
  return is_number && field.find('.') != std::string::npos ? digits(value, 4) : field;
}

std::string brief(double value) { return std::isnan(value) ? "-" : digits(value, 4); }

std::string note_of_pass(const Record& record) {
  return record.at("Check") == "PASS" ? record.at("Note") : "";
}

bool is_on_cuda(const Record& record) { return record.at("Platform") == "cuda"; }

Row cast_line(const Record& record) {
  const double unit = is_on_cuda(record) ? 1000 : 1;
  return {record.at("Rows") + "x" + record.at("Cols"),
          record.at("Block"),
          record.at("Transposed Block"),
          record.at("Check"),
          brief(record.number("Time (ms)")),
          brief(record.number("GB/s") / unit),
          brief(record.number("Memcpy GB/s") / unit),
          brief(record.number("Memcpy Ratio")),
          brief(record.number("Spread (%)")),
          note_of_pass(record)};
}

Row memory_step_line(const Record& record) {
  const double unit = is_on_cuda(record) ? 1000 : 1;
  Row line{record.at("Case"), record.at("Shape"), record.at("Options"), record.at("Check")};
  for (const std::string part : {"Forward", "Backward"}) {
    line.push_back(brief(record.number(part + " Time (ms)")));
    line.push_back(brief(record.number(part + " GB/s") / unit));
    line.push_back(brief(record.number(part + " Copy Ratio")));
  }
  line.push_back(brief(record.number("Spread (%)")));
  line.push_back(note_of_pass(record));
  return line;
}

// "14, unfused 17": forward and backward together, divided by `unit`.
std::string beside_unfused(const Record& record, const std::string& what, double unit) {
  const auto step = [&](const std::string& way) {
    return (record.number(way + "Forward " + what) + record.number(way + "Backward " + what)) /
           unit;
  };
  const double unfused = step("Unfused ");
  return brief(step("")) + (std::isnan(unfused) ? "" : ", unfused " + brief(unfused));
}

// The unit of the rates in a table; a GPU's are larger.
std::string rate_unit(const Row& header, const std::vector<Row>& rows) {
  const bool on_cuda = std::any_of(rows.begin(), rows.end(),
                                   [&](const Row& row) { return is_on_cuda(Record(header, row)); });
  return on_cuda ? "TB/s" : "GB/s";
}

const char* colour(const std::string& cell) {
  if (cell == "PASS") return "\033[32m";
  if (cell == "FAIL" || cell == "ERROR") return "\033[31m";
  return nullptr;
}

std::vector<std::size_t> column_widths(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

}  // namespace

Row gemm_columns(bool with_baseline) {
  Row header = joined({place_columns(),
                       {"Case", "MBS", "M", "N", "K", "Dtype", "Granularity", "Check"},
                       step_columns()});
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"Forward", "dX", "dW"}) {
      header.push_back(std::string(tensor) + " " + gate + " SNR (dB)");
    }
  }
  append(header, joined({{"f16 SNR (dB)"}, run_columns(), {"Wgrad Blocks"}, origin_columns()}));
  if (with_baseline) {
    append(header, {"Baseline", "Forward Ratio", "Backward Ratio", "Combined Ratio",
                    "Baseline Forward Time (ms)", "Baseline Backward Time (ms)",
                    "Baseline Combined Step Time (ms)"});
  }
  return header;
}

std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows) {
  const bool with_baseline = std::find(header.begin(), header.end(), "Baseline") != header.end();
  const std::vector<TableColumn> columns = gemm_table_columns(with_baseline);
  std::vector<Row> table(1);
  for (const TableColumn& column : columns) table[0].emplace_back(column.title);
  table[0].emplace_back("note");
  for (const Row& row : rows) {
    const Record record(header, row);
    const bool plain = record.at("Dtype") != "fp8";
    Row line;
    for (const auto& [title, column] : columns) {
      const bool plain_snr = plain && column == std::string_view("Forward G1 SNR (dB)");
      line.push_back(brief(record.at(plain_snr ? "Forward G4 SNR (dB)" : column)));
    }
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  return table;
}

Row cast_columns() {
  return joined({place_columns(),
                 {"Rows", "Cols", "Dtype", "Format", "Block", "Transposed Block", "Check",
                  "Time (ms)", "Bytes", "GB/s", "Memcpy Time (ms)", "Memcpy GB/s", "Memcpy Ratio"},
                 run_columns(),
                 origin_columns()});
}

std::vector<Row> cast_table(const Row& header, const std::vector<Row>& rows) {
  const std::string unit = rate_unit(header, rows);
  std::vector<Row> table{{"shape", "block", "transposed", "check", "ms", unit, "copy " + unit,
                          "ratio", "spread %", "note"}};
  for (const Row& row : rows) table.push_back(cast_line(Record(header, row)));
  return table;
}

Row memory_step_columns() {
  Row header =
      joined({place_columns(), {"Case", "Operator", "Shape", "Dtype", "Options", "Check"}});
  for (const char* part : {"Forward", "Backward"}) {
    for (const char* what : {" Time (ms)", " GB/s", " Copy Ratio"}) {
      header.push_back(std::string(part) + what);
    }
  }
  append(header, {"Combined Step Time (ms)", "Combined Step GB/s", "Combined Copy Ratio",
                  "Forward Bytes", "Backward Bytes", "Forward SNR (dB)", "Backward SNR (dB)"});
  append(header, joined({run_columns(), origin_columns()}));
  return header;
}

std::vector<Row> memory_step_table(const Row& header, const std::vector<Row>& rows) {
  const std::string unit = rate_unit(header, rows);
  std::vector<Row> table{{"case", "shape", "options", "check", "forward ms", unit, "of a copy",
                          "backward ms", unit, "of a copy", "spread %", "note"}};
  for (const Row& row : rows) table.push_back(memory_step_line(Record(header, row)));
  return table;
}

Row mlp_columns() {
  Row header = joined({place_columns(),
                       {"Case", "Operator", "M", "F", "K", "Dtype", "Options", "Check"},
                       step_columns()});
  for (const std::string way : {"", "Unfused "}) {
    for (const char* part : {"Forward", "Backward"}) {
      append(header, {way + part + " Launches", way + part + " Bytes"});
    }
  }
  append(header, {"Unfused Forward Time (ms)", "Unfused Backward Time (ms)", "Forward Ratio",
                  "Backward Ratio", "Combined Ratio", "Same Bits", "Forward SNR (dB)",
                  "Backward SNR (dB)"});
  append(header, joined({run_columns(), origin_columns()}));
  return header;
}

std::vector<Row> mlp_table(const Row& header, const std::vector<Row>& rows) {
  std::vector<Row> table{{"case", "shape", "options", "check", "forward ms", "TFLOPS",
                          "backward ms", "TFLOPS", "step TFLOPS", "launches", "GB moved",
                          "unfused ms / ms", "same bits", "spread %", "note"}};
  for (const Row& row : rows) {
    const Record record(header, row);
    Row line{record.at("Case"), record.at("M") + "x" + record.at("F") + "x" + record.at("K"),
             record.at("Dtype") + " " + record.at("Options"), record.at("Check")};
    for (const char* column : {"Forward Time (ms)", "Forward TFLOPS", "Backward Time (ms)",
                               "Backward TFLOPS", "Combined Step TFLOPS"}) {
      line.push_back(brief(record.number(column)));
    }
    line.push_back(beside_unfused(record, "Launches", 1));
    line.push_back(beside_unfused(record, "Bytes", 1e9));
    line.push_back(brief(record.number("Combined Ratio")));
    line.push_back(brief(record.at("Same Bits")));
    line.push_back(brief(record.number("Spread (%)")));
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  return table;
}

double geometric_mean_of(const Row& header, const std::vector<Row>& rows, std::string_view column) {
  std::vector<double> values;
  for (const Row& row : rows) {
    const double value = Record(header, row).number(column);
    if (!std::isnan(value)) values.push_back(value);
  }
  return geometric_mean(values);
}

std::string table_text(const std::vector<Row>& rows, std::size_t left_columns, bool colours) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (const char* code = colour(cell); colours && code != nullptr) {
        cell.insert(0, code).append("\033[0m");
      }
      cell.insert(i < left_columns ? cell.size() : 0, widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

bool stdout_has_colours() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

}  // namespace octet::bench
