#include "bench/report/tables.hpp"

#include "bench/timing/timing.hpp"

#include <initializer_list>
#include <map>

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

// Which unit a column is printed in.
enum class Scale { none, time, rate };

struct TableColumn {
  const char* title;
  const char* column;
  Scale scale = Scale::none;
};

// The units of a table, chosen from all of its times and all of its rates.
struct Units {
  Unit time;
  Unit rate;
};

std::vector<double> numbers(const Row& header, const std::vector<Row>& rows,
                            std::initializer_list<const char*> columns) {
  std::vector<double> values;
  for (const Row& row : rows) {
    for (const char* column : columns) values.push_back(Record(header, row).number(column));
  }
  return values;
}

Units units_of(const Row& header, const std::vector<Row>& rows,
               std::initializer_list<const char*> times, const std::string& rate,
               std::initializer_list<const char*> rates) {
  return {fitting_unit("ms", numbers(header, rows, times)),
          fitting_unit(rate, numbers(header, rows, rates))};
}

Units step_units(const Row& header, const std::vector<Row>& rows) {
  return units_of(header, rows, {"Forward Time (ms)", "Backward Time (ms)"}, "TFLOPS",
                  {"Forward TFLOPS", "Backward TFLOPS", "Combined Step TFLOPS"});
}

std::vector<TableColumn> gemm_table_columns(bool with_baseline) {
  std::vector<TableColumn> columns{{"case", "Case"}, {"shape", "M"}, {"check", "Check"}};
  const auto add = [&](std::initializer_list<TableColumn> rates, const char* ratio) {
    for (const TableColumn& rate : rates) columns.push_back(rate);
    if (with_baseline) columns.push_back({"ratio", ratio});
  };
  add({{"forward ", "Forward Time (ms)", Scale::time}, {"", "Forward TFLOPS", Scale::rate}},
      "Forward Ratio");
  add({{"backward ", "Backward Time (ms)", Scale::time}, {"", "Backward TFLOPS", Scale::rate}},
      "Backward Ratio");
  add({{"step ", "Combined Step TFLOPS", Scale::rate}}, "Combined Ratio");
  for (const TableColumn& last : {TableColumn{"spread %", "Spread (%)"},
                                  {"SNR dB", "Forward G1 SNR (dB)"},
                                  {"f16 SNR dB", "f16 SNR (dB)"}}) {
    columns.push_back(last);
  }
  return columns;
}

// "forward us": the title with the name of its unit.
std::string title_of(const TableColumn& column, const Units& units) {
  switch (column.scale) {
    case Scale::time: return column.title + units.time.name;
    case Scale::rate: return column.title + units.rate.name;
    default: return column.title;
  }
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

std::string cell_of(const Record& record, const TableColumn& column, const Units& units) {
  switch (column.scale) {
    case Scale::time: return units.time.text(record.number(column.column));
    case Scale::rate: return units.rate.text(record.number(column.column));
    default: return brief(record.at(column.column));
  }
}

// A FAIL or ERROR has its note below the table.
std::string note_of_pass(const Record& record) {
  std::string note = record.at("Check") == "PASS" ? record.at("Note") : "";
  for (const auto& [words, better] :
       {std::pair<std::string, std::string>("noisy; repeated", "noisy (measured twice)"),
        {"repeated", "measured twice"}}) {
    if (const std::size_t at = note.find(words); at != std::string::npos) {
      note.replace(at, words.size(), better);
    }
  }
  return note;
}

Row cast_line(const Record& record, const Units& units) {
  return {record.at("Rows") + "x" + record.at("Cols"),
          record.at("Block"),
          record.at("Transposed Block"),
          record.at("Check"),
          units.time.text(record.number("Time (ms)")),
          units.rate.text(record.number("GB/s")),
          units.rate.text(record.number("Memcpy GB/s")),
          brief(record.number("Memcpy Ratio")),
          brief(record.number("Spread (%)")),
          note_of_pass(record)};
}

Row memory_step_line(const Record& record, const Units& units) {
  Row line{record.at("Case"), record.at("Shape"), record.at("Options"), record.at("Check")};
  for (const std::string part : {"Forward", "Backward"}) {
    line.push_back(units.time.text(record.number(part + " Time (ms)")));
    line.push_back(units.rate.text(record.number(part + " GB/s")));
    line.push_back(brief(record.number(part + " Copy Ratio")));
  }
  line.push_back(brief(record.number("Spread (%)")));
  line.push_back(note_of_pass(record));
  return line;
}

// "14 (17)", the unfused chain in parentheses: forward and backward together, divided by `unit`.
std::string beside_unfused(const Record& record, const std::string& what, double unit) {
  const auto step = [&](const std::string& way) {
    return (record.number(way + "Forward " + what) + record.number(way + "Backward " + what)) /
           unit;
  };
  const double unfused = step("Unfused ");
  return brief(step("")) + (std::isnan(unfused) ? "" : " (" + brief(unfused) + ")");
}

// Without the first column if no case has a name: those of --shape are all called "shape".
void drop_unnamed_cases(std::vector<Row>& table) {
  const bool named =
      std::any_of(table.begin() + 1, table.end(), [](const Row& row) { return row[0] != "shape"; });
  if (named) return;
  for (Row& row : table) row.erase(row.begin());
}

struct Means {
  const Row& header;
  const std::vector<Row>& rows;

  double operator()(std::string_view column) const {
    return geometric_mean_of(header, rows, column);
  }
  std::size_t count(std::string_view column) const {
    return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
      return !std::isnan(Record(header, row).number(column));
    }));
  }
};

std::string cases(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " case" : " cases");
}

// "; forward 1.1, backward 2.2", for the parts that the rows have.
std::string parts_text(const Means& mean, const std::string& column, const Unit& unit) {
  std::string text;
  for (const auto& [name, part] : {std::pair("forward ", "Forward "), {"backward ", "Backward "}}) {
    const double value = mean(part + column);
    if (std::isnan(value)) return "";
    text += (text.empty() ? "; " : ", ") + (name + unit.text(value));
  }
  return text;
}

std::string percent(double share) { return digits(share * 100, 3) + " %"; }
std::string times(double ratio) { return digits(ratio, 4) + "x"; }

// The median of ratios differs from the ratio of the medians in the table.
constexpr const char* kOfPairs = "; medians over pairs timed side by side\n";

// " (forward 98 %, backward 97 %)", or nothing if the rows have no parts.
std::string shares_text(const Means& mean, const std::string& column, std::string (*text)(double)) {
  const double forward = mean("Forward " + column);
  const double backward = mean("Backward " + column);
  if (std::isnan(forward) || std::isnan(backward)) return "";
  return " (forward " + text(forward) + ", backward " + text(backward) + ")";
}

// Of another library that is timed in the same run.
Row baseline_columns() {
  return {"Baseline",
          "Forward Ratio",
          "Backward Ratio",
          "Combined Ratio",
          "Baseline Forward Time (ms)",
          "Baseline Backward Time (ms)",
          "Baseline Combined Step Time (ms)"};
}
bool has_baseline(const Row& header) {
  return std::find(header.begin(), header.end(), "Baseline") != header.end();
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
  if (with_baseline) append(header, baseline_columns());
  return header;
}

std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows) {
  const std::vector<TableColumn> columns = gemm_table_columns(has_baseline(header));
  const Units units = step_units(header, rows);
  std::vector<Row> table(1);
  for (const TableColumn& column : columns) table[0].push_back(title_of(column, units));
  table[0].emplace_back("note");
  for (const Row& row : rows) {
    const Record record(header, row);
    const bool plain = record.at("Dtype") != "fp8";
    Row line;
    for (TableColumn column : columns) {
      const bool plain_snr = plain && column.column == std::string_view("Forward G1 SNR (dB)");
      if (plain_snr) column.column = "Forward G4 SNR (dB)";
      const bool is_shape = column.column == std::string_view("M");
      line.push_back(is_shape ? record.at("M") + "x" + record.at("N") + "x" + record.at("K")
                              : cell_of(record, column, units));
    }
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  drop_unnamed_cases(table);
  return table;
}

Row grouped_columns() {
  Row header = joined(
      {place_columns(),
       {"Case", "Operator", "Group Sizes", "B", "M", "N", "K", "Dtype", "Granularity", "Check"},
       step_columns()});
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"Forward", "dX", "dW"}) {
      header.push_back(std::string(tensor) + " " + gate + " SNR (dB)");
    }
  }
  append(header, joined({run_columns(), {"Wgrad Blocks"}, origin_columns()}));
  return header;
}

std::vector<Row> grouped_table(const Row& header, const std::vector<Row>& rows) {
  const Units units = step_units(header, rows);
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "groups", "sizes", "shape", "check", "forward " + time.name,
                          rate.name, "backward " + time.name, rate.name, "step " + rate.name,
                          "spread %", "SNR dB", "note"}};
  for (const Row& row : rows) {
    const Record record(header, row);
    const bool plain = record.at("Dtype") != "fp8";
    Row line{record.at("Case"), record.at("B"), record.at("Group Sizes"),
             record.at("M") + "x" + record.at("N") + "x" + record.at("K"), record.at("Check")};
    for (const char* part : {"Forward", "Backward"}) {
      line.push_back(time.text(record.number(std::string(part) + " Time (ms)")));
      line.push_back(rate.text(record.number(std::string(part) + " TFLOPS")));
    }
    line.push_back(rate.text(record.number("Combined Step TFLOPS")));
    line.push_back(brief(record.number("Spread (%)")));
    line.push_back(brief(record.number(plain ? "Forward G4 SNR (dB)" : "Forward G1 SNR (dB)")));
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  drop_unnamed_cases(table);
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
  const Units units = units_of(header, rows, {"Time (ms)"}, "GB/s", {"GB/s", "Memcpy GB/s"});
  std::vector<Row> table{{"shape", "block", "transposed", "check", units.time.name, units.rate.name,
                          "copy " + units.rate.name, "of a copy", "spread %", "note"}};
  for (const Row& row : rows) table.push_back(cast_line(Record(header, row), units));
  return table;
}

Row update_columns() {
  return joined({place_columns(),
                 {"Case", "Operator", "Shape", "Dtype", "Options", "Check", "Time (ms)", "Bytes",
                  "GB/s", "Copy Time (ms)", "Copy GB/s", "Copy Ratio", "SNR (dB)"},
                 run_columns(),
                 origin_columns()});
}

std::vector<Row> update_table(const Row& header, const std::vector<Row>& rows) {
  const Units units = units_of(header, rows, {"Time (ms)"}, "GB/s", {"GB/s", "Copy GB/s"});
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "shape", "options", "check", time.name, rate.name,
                          "copy " + rate.name, "of a copy", "spread %", "note"}};
  for (const Row& row : rows) {
    const Record record(header, row);
    table.push_back({record.at("Case"), record.at("Shape"),
                     record.at("Dtype") + " " + record.at("Options"), record.at("Check"),
                     time.text(record.number("Time (ms)")), rate.text(record.number("GB/s")),
                     rate.text(record.number("Copy GB/s")), brief(record.number("Copy Ratio")),
                     brief(record.number("Spread (%)")), note_of_pass(record)});
  }
  drop_unnamed_cases(table);
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
  const Units units = units_of(header, rows, {"Forward Time (ms)", "Backward Time (ms)"}, "GB/s",
                               {"Forward GB/s", "Backward GB/s"});
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "shape", "options", "check", "forward " + time.name, rate.name,
                          "of a copy", "backward " + time.name, rate.name, "of a copy", "spread %",
                          "note"}};
  for (const Row& row : rows) table.push_back(memory_step_line(Record(header, row), units));
  drop_unnamed_cases(table);
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
  const Units units = step_units(header, rows);
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "shape", "options", "check", "forward " + time.name, rate.name,
                          "backward " + time.name, rate.name, "step " + rate.name,
                          "launches (unfused)", "GB moved (unfused)", "unfused / fused",
                          "same bits", "spread %", "note"}};
  for (const Row& row : rows) {
    const Record record(header, row);
    Row line{record.at("Case"), record.at("M") + "x" + record.at("F") + "x" + record.at("K"),
             record.at("Dtype") + " " + record.at("Options"), record.at("Check")};
    for (const char* part : {"Forward", "Backward"}) {
      line.push_back(time.text(record.number(std::string(part) + " Time (ms)")));
      line.push_back(rate.text(record.number(std::string(part) + " TFLOPS")));
    }
    line.push_back(rate.text(record.number("Combined Step TFLOPS")));
    line.push_back(beside_unfused(record, "Launches", 1));
    line.push_back(beside_unfused(record, "Bytes", 1e9));
    line.push_back(brief(record.number("Combined Ratio")));
    line.push_back(brief(record.at("Same Bits")));
    line.push_back(brief(record.number("Spread (%)")));
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  drop_unnamed_cases(table);
  return table;
}

Row head_columns() {
  return joined({place_columns(),
                 {"Case", "Operator", "M", "V", "K", "Dtype", "Options", "Check", "Loss Time (ms)",
                  "Loss TFLOPS", "Combined Step Time (ms)", "Combined Step TFLOPS",
                  "Workspace Bytes", "Forward SNR (dB)", "Backward SNR (dB)"},
                 run_columns(),
                 origin_columns()});
}

std::vector<Row> head_table(const Row& header, const std::vector<Row>& rows) {
  const Units units = units_of(header, rows, {"Loss Time (ms)", "Combined Step Time (ms)"},
                               "TFLOPS", {"Loss TFLOPS", "Combined Step TFLOPS"});
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "shape", "options", "check", "loss " + time.name, rate.name,
                          "step " + time.name, rate.name, "workspace GB", "spread %", "note"}};
  for (const Row& row : rows) {
    const Record record(header, row);
    Row line{record.at("Case"), record.at("M") + "x" + record.at("V") + "x" + record.at("K"),
             record.at("Dtype") + " " + record.at("Options"), record.at("Check")};
    for (const char* part : {"Loss", "Combined Step"}) {
      line.push_back(time.text(record.number(std::string(part) + " Time (ms)")));
      line.push_back(rate.text(record.number(std::string(part) + " TFLOPS")));
    }
    line.push_back(brief(record.number("Workspace Bytes") / 1e9));
    line.push_back(brief(record.number("Spread (%)")));
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  drop_unnamed_cases(table);
  return table;
}

Row attention_columns(bool with_baseline) {
  Row run = run_columns();
  run.erase(run.begin());  // the backend, which comes before the check
  Row header = joined({place_columns(),
                       {"Case", "Operator", "Dtype", "Batch", "SeqLen", "SeqLenKV", "num_head_q",
                        "num_head_kv", "head_dim_qk", "head_dim_v", "Causal", "Window", "Layout",
                        "Deterministic", "Backend", "Check"},
                       step_columns(),
                       {"Options", "Workspace Bytes", "Forward SNR (dB)", "Backward SNR (dB)"},
                       run,
                       origin_columns()});
  if (with_baseline) append(header, joined({baseline_columns(), {"Baseline Configuration"}}));
  return header;
}

std::vector<Row> attention_table(const Row& header, const std::vector<Row>& rows) {
  const Units units = step_units(header, rows);
  const auto& [time, rate] = units;
  std::vector<Row> table{{"case", "batch", "seq", "heads", "dim", "mask", "layout", "check",
                          "forward " + time.name, rate.name, "backward " + time.name, rate.name,
                          "step " + rate.name, "spread %", "SNR dB"}};
  if (has_baseline(header)) append(table[0], {"forward ratio", "backward ratio", "step ratio"});
  table[0].emplace_back("note");
  for (const Row& row : rows) {
    const Record record(header, row);
    const auto both = [&](const char* first, const char* second) {
      const std::string& a = record.at(first);
      return a == record.at(second) ? a : a + "x" + record.at(second);
    };
    const std::string& window = record.at("Window");
    Row line{record.at("Case"),
             record.at("Batch"),
             both("SeqLen", "SeqLenKV"),
             both("num_head_q", "num_head_kv"),
             both("head_dim_qk", "head_dim_v"),
             !window.empty()                 ? window
             : record.at("Causal") == "True" ? "causal"
                                             : "none",
             record.at("Layout"),
             record.at("Check")};
    for (const char* part : {"Forward", "Backward"}) {
      line.push_back(time.text(record.number(std::string(part) + " Time (ms)")));
      line.push_back(rate.text(record.number(std::string(part) + " TFLOPS")));
    }
    line.push_back(rate.text(record.number("Combined Step TFLOPS")));
    line.push_back(brief(record.number("Spread (%)")));
    line.push_back(brief(record.number("Forward SNR (dB)")));
    for (const char* part : {"Forward", "Backward", "Combined"}) {
      if (has_baseline(header)) line.push_back(brief(record.number(part + std::string(" Ratio"))));
    }
    line.push_back(note_of_pass(record));
    table.push_back(std::move(line));
  }
  drop_unnamed_cases(table);
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

namespace {

// `of`: "", or " of GROUP" where the rows are not all of one group.
std::string score_of(const Row& header, const std::vector<Row>& rows, const std::string& of) {
  struct Score {
    const char* column;
    const char* unit;
  };
  constexpr Score kScores[] = {
      {"Combined Step TFLOPS", "TFLOPS"}, {"Combined Step GB/s", "GB/s"}, {"GB/s", "GB/s"}};
  const Means mean{header, rows};
  const auto score = std::find_if(std::begin(kScores), std::end(kScores),
                                  [&](const Score& one) { return !std::isnan(mean(one.column)); });
  if (score == std::end(kScores)) return {};
  const Unit unit = fitting_unit(score->unit, {mean(score->column)});
  const std::string parts = parts_text(mean, score->unit, unit);
  std::string text = "Score" + of + ": " + unit.text(mean(score->column)) + " " + unit.name +
                     (parts.empty() ? "" : ", forward + backward") + " (geometric mean of " +
                     cases(mean.count(score->column)) + ")" + parts + "\n";
  for (const char* column : {"Combined Copy Ratio", "Memcpy Ratio"}) {
    if (std::isnan(mean(column))) continue;
    text += "Share of copy bandwidth" + of + ": " + percent(mean(column)) +
            shares_text(mean, "Copy Ratio", percent) + kOfPairs;
  }
  if (const double ratio = mean("Combined Ratio"); !std::isnan(ratio)) {
    const std::string baseline = Record(header, rows.front()).at("Baseline");
    text += "Speed" + of + ": " + times(ratio) + " " +
            (baseline.empty() ? "the unfused chain" : baseline) +
            shares_text(mean, "Ratio", times) + kOfPairs;
  }
  return text;
}

}  // namespace

std::string score_text(const Row& header, const std::vector<Row>& rows, const GroupOf& group_of) {
  std::map<std::string, std::vector<Row>> groups;
  for (const Row& row : rows) groups[group_of(Record(header, row))].push_back(row);
  std::string text;
  for (const auto& [group, members] : groups) {
    text += score_of(header, members, groups.size() > 1 && !group.empty() ? " of " + group : "");
  }
  return text;
}

std::string score_text(const Row& header, const std::vector<Row>& rows) {
  return score_text(header, rows, [](const Record&) { return std::string(); });
}

}  // namespace octet::bench
