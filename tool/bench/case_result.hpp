// The result of one case of `octet bench`, and the CSV rows written from it.
#pragma once

#include "tool/operators/operator.hpp"
#include "tool/results/command_line.hpp"

#include "bench/report/record.hpp"

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
  std::string baseline_configuration{};
  std::string command;  // repeats the row
  std::string implementation;
  std::string configuration;
  std::vector<bench::Workload::Call> calls;
  std::vector<bench::Workload::Call> peer_calls;

  std::string check = "ERROR";  // PASS, FAIL or ERROR
  std::string note;             // why not PASS, or how it was timed: "cold; noisy"
  GateReport gates;
  double f16_snr_db = std::numeric_limits<double>::quiet_NaN();  // linear layers only
  std::optional<bench::Samples> times;                           // of the calls; only after PASS
  std::optional<bench::Comparison> comparison{};  // with the baseline, copies or unfused chain

  double seconds(std::size_t call) const { return times->median_seconds(call); }
};

// The rows of one CSV: how they are written, and which columns are printed.
struct RowLayout {
  bench::Row header;
  bench::Row (*fields)(const CaseResult& result);
  std::vector<bench::Row> (*table)(const bench::Row& header, const std::vector<bench::Row>& rows);
  const char* name_column;  // names a case that failed
};

// `baseline`: the name --baseline gives; empty without it.
RowLayout layout_of(RowKind rows, const std::string& baseline);
RowLayout layer_layout(const std::string& baseline);
RowLayout grouped_layout();
RowLayout cast_layout();
RowLayout memory_layout();
RowLayout mlp_layout();
RowLayout head_layout();
RowLayout update_layout();
RowLayout attention_layout(const std::string& baseline);

// Prints the table, every FAIL and ERROR with its note and the command that repeats it (`repeats`
// has one per case), the score and the counts. Rows just measured and rows read back from a file
// print alike. `wide`: the table may be wider than the terminal. Returns the exit status.
int print_summary(const RowLayout& layout, const std::vector<std::optional<bench::Row>>& rows,
                  const std::vector<std::string>& repeats, bool wide);

// Groups of fields that the layouts share.

using bench::append;
using bench::number;
// TestID, Platform, GPU.
bench::Row place_fields(const CaseResult& result);
// Time in ms and TFLOPS of forward, backward (twice the operations) and both together; empty if not
// timed.
bench::Row step_fields(const CaseResult& result, double forward_operations);
// What --baseline names, the ratios to it and its times; empty where it was not timed.
bench::Row baseline_fields(const CaseResult& result);
// Backend, Configuration, ..., Note.
bench::Row run_fields(const CaseResult& result);
// Commit, Device Sources, CPU, the clocks during timing, Seed, Command.
bench::Row origin_fields(const CaseResult& result);
// The lowest SNR of the gradients, whose names begin with d, or of the other tensors; NaN if no
// gate measured one.
double least_snr_db(const GateReport& gates, bool gradients);

}  // namespace octet::tool
