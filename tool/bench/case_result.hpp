// What a case of `octet bench` came to, and the rows that are written of it.
#pragma once

#include "tool/operators/operator.hpp"
#include "tool/results/csv.hpp"

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

struct CaseResult {
  std::string op;  // "rms-norm"
  Case chosen;
  std::string test_id;
  DataOptions data;
  std::string baseline;  // what --baseline names; empty without it
  std::string command;   // repeats the row
  std::string implementation;
  std::string configuration;
  std::vector<bench::Workload::Call> calls;
  std::vector<bench::Workload::Call> peer_calls;

  std::string check = "ERROR";  // PASS, FAIL or ERROR
  std::string note;             // why not PASS, or how it was timed: "cold; noisy"
  GateReport gates;
  double f16_snr_db = std::numeric_limits<double>::quiet_NaN();  // of linear layers only
  std::optional<bench::Samples> times;                           // of the calls; only of a PASS
  std::optional<bench::Comparison> comparison{};                 // with what they are set beside

  double seconds(std::size_t call) const { return times->median_seconds(call); }
};

// The rows of one CSV: how they are written and what a person sees of them.
struct RowLayout {
  CsvRow header;
  CsvRow (*fields)(const CaseResult& result);
  std::vector<CsvRow> (*table)(const CsvRow& header, const std::vector<CsvRow>& rows);
  std::size_t left_columns;  // of the table
  const char* name_column;   // of what failed
  // "score: {:.3f} of ...", printed with the geometric mean of each column where the first has one.
  struct Score {
    std::string text;
    std::vector<const char*> columns;
  };
  std::vector<Score> scores;
};

// `baseline`: what --baseline names; empty without it.
RowLayout layout_of(RowKind rows, const std::string& baseline);
RowLayout layer_layout(const std::string& baseline);
RowLayout cast_layout();
RowLayout memory_layout();
RowLayout mlp_layout();

// Prints the table, every FAIL and ERROR with its note and the command that repeats it (`repeats` has
// one per case), the scores and the counts: the same whether rows were measured just now or taken up
// from a file. The exit status.
int print_summary(const RowLayout& layout, const std::vector<std::optional<CsvRow>>& rows,
                  const std::vector<std::string>& repeats);

// What the fields of all are made of.

// "31.62", enough digits for every rate; empty for NaN.
std::string number(double value);
void append(CsvRow& row, CsvRow&& more);
// The value of an option in the command line of a problem; empty where it is not there.
std::string option_of(const std::string& arguments, const std::string& option);
// What else that command line says: without operator, shape, dtype and device.
std::string other_options(const std::string& arguments);
// TestID, Platform, GPU.
CsvRow place_fields(const CaseResult& result);
// Time in ms and TFLOPS of forward, of backward, which has twice the operations, and of both together;
// empty where it was not timed.
CsvRow step_fields(const CaseResult& result, double forward_operations);
// Backend, Configuration, ..., Note.
CsvRow run_fields(const CaseResult& result);
// Commit, Device Sources, CPU, what the clocks did while it was timed, Seed, Command.
CsvRow origin_fields(const CaseResult& result);
// The least SNR of the gradients, whose names begin with d, or of the others; NaN where none was
// asked.
double least_snr_db(const GateReport& gates, bool gradients);

}  // namespace octet::tool
