// Which cases of a benchmark are run now, and how the run ends: the same for every operator.
#pragma once

#include "tool/results/result_file.hpp"
#include "tool/results/result_kind.hpp"
#include "tool/options/timing_options.hpp"

#include "bench/report/record.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// A case is run where it belongs to the shard, no earlier run has left its row, and time is left.
// `run(i)` makes the row of case i; `name(i)` is what the progress bar shows. Rows go to the history
// too; at the end the file is finished and what --json names is written.
void run_cases(ResultFile& file, const ResultKind& kind, const TimingOptions& options,
               const RunClock& clock, const std::function<std::string(std::size_t)>& name,
               const std::function<bench::Row(std::size_t)>& run);

// Every FAIL and ERROR with its note and the command that repeats it.
void print_failures(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows,
                    const char* name_column, const std::vector<std::string>& repeats);
// "3 PASS, 0 FAIL, 0 ERROR". The exit status.
int print_counts(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows);

}  // namespace octet::tool
