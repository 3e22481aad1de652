// The columns of every kind of result file, the same whether the octet command or a user's program
// writes them, and the table that shows such rows to people.
#pragma once

#include "bench/report/record.hpp"
#include "bench/report/text_table.hpp"

#include <functional>

namespace octet::bench {

// A linear layer, forward and backward. The first 17 columns are a contract.
Row gemm_columns(bool with_baseline);
// Linear layers over groups of rows, forward and backward. M counts the rows of the groups.
Row grouped_columns();
// A cast, or another memory-bound kernel of one call, beside a copy of the same bytes.
Row cast_columns();
// A memory-bound operator, forward and backward, each beside a copy of the same bytes.
Row memory_step_columns();
// A gated MLP, forward and backward, beside its unfused chain.
Row mlp_columns();
// The head and its loss: the loss alone, and the step with both gradients.
Row head_columns();
Row update_columns();
// Attention, forward and backward.
Row attention_columns(bool with_baseline);

// The titles, then a line for every row. Times and rates are in units that fit them.
std::vector<Row> gemm_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> grouped_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> cast_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> memory_step_table(const Row& header, const std::vector<Row>& rows);
// Launches and bytes of the step, beside those of the unfused chain.
std::vector<Row> mlp_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> head_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> update_table(const Row& header, const std::vector<Row>& rows);
std::vector<Row> attention_table(const Row& header, const std::vector<Row>& rows);

// The geometric mean of a column over the rows that have it; NaN if none has.
double geometric_mean_of(const Row& header, const std::vector<Row>& rows, std::string_view column);

// "Score: 97.6 GFLOPS, forward + backward (geometric mean of 3 cases)", and beside it what the rows
// have: parts, share of copy bandwidth, ratio to a baseline. Empty if no row has a rate.
std::string score_text(const Row& header, const std::vector<Row>& rows);
// The same lines for each group of rows that are not averaged with others; "" names no group.
using GroupOf = std::function<std::string(const Record& row)>;
std::string score_text(const Row& header, const std::vector<Row>& rows, const GroupOf& group_of);

}  // namespace octet::bench
