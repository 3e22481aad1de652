// Tables for people: the columns they show of result rows, and their text.
#pragma once

#include "bench/report/record.hpp"

namespace octet::bench {

// The titles, then a line for every row.
std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows);
// Rates are in gigabytes per second on the CPU, in terabytes per second on a GPU.
std::vector<Row> cast_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> memory_step_table(const Row& header, const std::vector<Row>& rows);
// Launches and bytes of the step, beside those of the unfused chain.
std::vector<Row> mlp_table(const Row& header, const std::vector<Row>& rows);

// The geometric mean of a column over the rows that have it; NaN if none has.
double geometric_mean_of(const Row& header, const std::vector<Row>& rows, std::string_view column);

// Columns are as wide as their widest cell; the first `left_columns` are left-aligned. With
// `colours`, PASS, FAIL and ERROR are coloured.
std::string table_text(const std::vector<Row>& rows, std::size_t left_columns, bool colours);
// Whether stdout is a terminal and NO_COLOR is not set.
bool stdout_has_colours();

}  // namespace octet::bench
