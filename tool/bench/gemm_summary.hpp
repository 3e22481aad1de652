// What a person sees of a run of `octet bench gemm`, made from its rows, whether they were measured
// just now or taken up from a file.
#pragma once

#include "bench/report/record.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// Prints the table, what failed with the command that repeats it, the score and the counts.
// `repeats` has that command for every case. The exit status.
int print_gemm_summary(const bench::Row& header, const std::vector<std::optional<bench::Row>>& rows,
                       const std::vector<std::string>& repeats);

}  // namespace octet::tool
