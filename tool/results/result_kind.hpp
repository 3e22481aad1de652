// What kind of result file a CSV is: which of its columns say what was measured and how fast it was.
// summarize, compare, report and the history know an operator only by this description: a new
// operator adds an entry to result_kinds().
#pragma once

#include "bench/report/record.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct RateColumn {
  const char* title;  // "forward", "backward" or "step"
  const char* column;
};

// A signal-to-noise ratio in dB and what its gate asks of it.
struct SnrColumn {
  const char* column;
  const char* gate;
  double bound_db;
};

// Another program's time over ours in the same run, of the step: its rate is ours over the ratio.
struct BaselineColumn {
  const char* ratio;
  const char* name_column;  // which has its name; nullptr: it is always `name`
  const char* name;
};

inline constexpr const char* kOperatorColumn = "Operator";

struct ResultKind {
  const char* op;                     // "gemm", as in `octet bench gemm`
  const char* about;                  // what one row is
  bool is_named_in_rows = false;      // kOperatorColumn has `op`: other kinds have the same columns
  std::vector<const char*> shape;     // printed as their fields with x between
  const char* name_column = nullptr;  // "Llama-2-7B attn_qkv": model and layer
  std::vector<const char*> variant;  // what else tells rows apart; `Command` does where it is empty
  const char* backend;               // the column that says what was run
  bool backend_is_key = false;       // rows of one shape with other backends are no rivals
  std::vector<RateColumn> rates;     // higher is better; the last is the step, which is scored
  const char* time = nullptr;        // of the step
  const char* unit;                  // of the rates as people see them
  double column_per_unit = 1;        // a column in GB/s has 1000 per TB/s
  std::vector<BaselineColumn> baselines;
  std::vector<SnrColumn> snrs;
  bool has_ceiling = false;  // the first baseline is a copy of the same bytes: nothing is faster
  // Operations of the step per byte of its tensors, each moved once; NaN where it is memory-bound.
  double (*intensity)(const bench::Record& record);
  const char* intensity_text = "";  // how it is counted
};

const std::vector<ResultKind>& result_kinds();
const ResultKind& result_kind(std::string_view op);

// "8x16x32"
std::string shape_of(const ResultKind& kind, const bench::Record& record);
// Of the step, in the kind's unit; NaN where the row has none.
double rate_of(const ResultKind& kind, const bench::Record& record);

// The kind whose columns the header has, or most of: a file with some missing is of that kind, and
// broken. `row`: the first below it, which names the operator where the columns do not; empty where
// there is none. nullptr where it is of no kind.
const ResultKind* kind_of(const bench::Row& header, const bench::Row& row);
std::vector<std::string> missing_columns(const ResultKind& kind, const bench::Row& header);

}  // namespace octet::tool
