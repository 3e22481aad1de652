// Tables for a person to read: what they show of result rows, and their text.
#pragma once

#include "bench/report/record.hpp"

namespace octet::bench {

// The titles, then a line for every row.
std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows);
// Rates in gigabytes a second on the CPU, in terabytes a second on a GPU.
std::vector<Row> cast_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> memory_step_table(const Row& header, const std::vector<Row>& rows);
// Launches and bytes of the step, and beside them those of the unfused chain.
std::vector<Row> mlp_table(const Row& header, const std::vector<Row>& rows);

// The geometric mean of a column over the rows that have it; NaN of none.
double geometric_mean_of(const Row& header, const std::vector<Row>& rows, std::string_view column);

// Columns as wide as their widest cell; the first `left_columns` are aligned left. PASS, FAIL and
// ERROR have colours where they are asked for.
std::string table_text(const std::vector<Row>& rows, std::size_t left_columns, bool colours);
// It is a terminal, and NO_COLOR is not set.
bool stdout_has_colours();

}  // namespace octet::bench
