// One row of `octet bench` of an operator that a StepOp describes: what a case came to.
#pragma once

#include "tool/results/csv.hpp"
#include "tool/operators/step_op.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

struct StepRow {
  std::size_t test_id = 0;
  std::string op;  // "rms-norm"
  StepCase step_case;
  std::string arguments;         // after `octet bench` and `octet check`
  std::string timing_arguments;  // after them for `octet bench`
  bench::WorkloadOptions data;
  std::vector<bench::StepWorkload::Call> calls;
  std::vector<bench::StepWorkload::Call> peer_calls;
  std::string check = "ERROR";  // PASS, FAIL or ERROR
  std::string note;
  GateReport gates;
  std::optional<bench::Samples> times;            // of the calls; of a PASS alone
  std::optional<bench::Comparison> comparison{};  // with what they are set beside

  double seconds(std::size_t call) const { return times->median_seconds(call); }
};

// The rows of one CSV: how they are written and what a person sees of them.
struct StepLayout {
  CsvRow header;
  CsvRow (*fields)(const StepRow& row);
  std::vector<CsvRow> (*table)(const CsvRow& header, const std::vector<CsvRow>& rows);
  std::size_t left_columns;  // of the table
  const char* name_column;   // of what failed
  // Printed of the geometric mean of a column, "score: {:.3f} of ...", where it has one.
  struct Score {
    const char* column;
    const char* text;
  };
  std::vector<Score> scores;
};

const StepLayout& layout_of(RowKind rows);
const StepLayout& cast_layout();
const StepLayout& memory_layout();
const StepLayout& mlp_layout();

// What the fields of all are made of.

void append(CsvRow& row, CsvRow&& more);
// The value of an option in the command line of a problem; empty where it is not there.
std::string option_of(const std::string& arguments, const std::string& option);
// What else that command line says: without operator, shape, dtype and device.
std::string other_options(const std::string& arguments);
// TestID, Platform, GPU.
CsvRow place_fields(const StepRow& row);
// Backend, Configuration, ..., Command.
CsvRow provenance_fields(const StepRow& row);
// The least SNR of the gradients, whose names begin with d, or of the others; NaN where none was
// asked.
double least_snr_db(const GateReport& gates, bool gradients);

}  // namespace octet::tool
