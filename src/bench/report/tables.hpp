// The columns of every kind of result file, the same whether the octet command or a user's program
// writes them, and the table that shows such rows to people.
#pragma once

#include "bench/report/record.hpp"

namespace octet::bench {

// A linear layer, forward and backward. The first 17 columns are a contract.
Row gemm_columns(bool with_baseline);
// A cast, or another memory-bound kernel of one call, beside a copy of the same bytes.
Row cast_columns();
// A memory-bound operator, forward and backward, each beside a copy of the same bytes.
Row memory_step_columns();
// A gated MLP, forward and backward, beside its unfused chain.
Row mlp_columns();

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
