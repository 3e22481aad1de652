// One row of `octet bench` of an operator that a StepOp describes: what a case came to.
#pragma once

#include "tool/operators/step_op.hpp"
#include "tool/results/command_line.hpp"

#include "bench/report/record.hpp"

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
  bench::Row header;
  bench::Row (*fields)(const StepRow& row);
  std::vector<bench::Row> (*table)(const bench::Row& header, const std::vector<bench::Row>& rows);
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

using bench::append;
// TestID, Platform, GPU.
bench::Row place_fields(const StepRow& row);
// Backend, Configuration, ..., Command.
bench::Row provenance_fields(const StepRow& row);
// The least SNR of the gradients, whose names begin with d, or of the others; NaN where none was
// asked.
double least_snr_db(const GateReport& gates, bool gradients);

}  // namespace octet::tool
