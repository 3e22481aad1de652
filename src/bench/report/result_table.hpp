// What a person sees of result rows.
#pragma once

#include "bench/report/table.hpp"

#include <string_view>

namespace octet::bench {

// The titles, then a line for every row.
std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows);
// Gigabytes a second on the CPU, terabytes on a GPU.
std::vector<Row> memory_table(const Row& header, const std::vector<Row>& rows);

std::vector<Row> memory_step_table(const Row& header, const std::vector<Row>& rows);
// Launches and bytes of the step, and beside them those of the unfused chain.
std::vector<Row> mlp_table(const Row& header, const std::vector<Row>& rows);

// The geometric mean of a column over the rows that have it; NaN of none.
double geometric_mean_of(const Row& header, const std::vector<Row>& rows, std::string_view column);

}  // namespace octet::bench
