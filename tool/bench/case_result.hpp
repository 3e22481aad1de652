// What a case of `octet bench` came to, and the rows that are written of it.
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
  bench::Row header;
  bench::Row (*fields)(const CaseResult& result);
  std::vector<bench::Row> (*table)(const bench::Row& header, const std::vector<bench::Row>& rows);
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
int print_summary(const RowLayout& layout, const std::vector<std::optional<bench::Row>>& rows,
                  const std::vector<std::string>& repeats);

// What the fields of all are made of.

using bench::append;
using bench::number;
// TestID, Platform, GPU.
bench::Row place_fields(const CaseResult& result);
// Time in ms and TFLOPS of forward, of backward, which has twice the operations, and of both together;
// empty where it was not timed.
bench::Row step_fields(const CaseResult& result, double forward_operations);
// Backend, Configuration, ..., Note.
bench::Row run_fields(const CaseResult& result);
// Commit, Device Sources, CPU, what the clocks did while it was timed, Seed, Command.
bench::Row origin_fields(const CaseResult& result);
// The least SNR of the gradients, whose names begin with d, or of the others; NaN where none was
// asked.
double least_snr_db(const GateReport& gates, bool gradients);

}  // namespace octet::tool
