// The kind of a result CSV: which columns say what was measured and how fast it was. summarize,
// compare, report and the history know an operator only by this description; a new operator adds an
// entry to result_kinds().
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

// A signal-to-noise ratio in dB and the bound of its gate.
struct SnrColumn {
  const char* column;
  const char* gate;
  double bound_db;
};

// Time of another program's step over ours, from the same run. Its rate is ours divided by the
// ratio.
struct BaselineColumn {
  const char* ratio;
  const char* name_column;  // holds its name; nullptr: it is always `name`
  const char* name;
  std::vector<RateColumn> parts{};  // the same ratio of the parts of the step
};

inline constexpr const char* kOperatorColumn = "Operator";

struct ResultKind {
  const char* op;                  // "gemm", as in `octet bench gemm`
  const char* about;               // what one row is
  bool is_named_in_rows = false;   // kOperatorColumn holds `op`; other kinds share the columns
  std::vector<const char*> shape;  // columns whose fields are printed with x in between
  std::vector<std::string_view>
      shape_options{};                // options of the command that these columns say, too
  const char* name_column = nullptr;  // "Llama-2-7B attn_qkv": model and layer
  std::vector<const char*>
      variant{};                    // other columns that tell rows apart; if empty, `Command` does
  const char* backend = "Backend";  // the column that says what was run
  bool backend_is_key = false;      // rows of one shape with different backends are different cases
  // If backend_is_key, the backend's time over octet's: the median over rounds in which both ran.
  const char* paired_ratio = nullptr;
  std::vector<RateColumn> rates;  // higher is better; the last is the step, which is scored
  const char* time = nullptr;     // column with the time of the step
  const char* unit;               // of the rates as printed
  double column_per_unit = 1;     // a column in GB/s has 1000 per TB/s
  std::vector<BaselineColumn> baselines{};
  std::vector<SnrColumn> snrs{};
  bool has_ceiling = false;  // the first baseline is a copy of the same bytes, the upper bound
  // Operations of the step per byte of its tensors, each moved once; NaN if it is memory-bound.
  double (*intensity)(const bench::Record& record);
  const char* intensity_text = "";  // how it is counted
};

const std::vector<ResultKind>& result_kinds();
const ResultKind& result_kind(std::string_view op);

// "8x16x32"
std::string shape_of(const ResultKind& kind, const bench::Record& record);
// Rate of the step in the kind's unit; NaN if the row has none.
double rate_of(const ResultKind& kind, const bench::Record& record);

// The kind that shares most columns with the header; a file that lacks some of them is a broken
// file of that kind. `row`: the first row, which names the operator if the columns do not; empty if
// there is none. Returns nullptr if no kind matches.
const ResultKind* kind_of(const bench::Row& header, const bench::Row& row);
std::vector<std::string> missing_columns(const ResultKind& kind, const bench::Row& header);

}  // namespace octet::tool
