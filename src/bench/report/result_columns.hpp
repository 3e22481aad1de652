// The columns of result files: the same whether the octet command or a user's program writes them.
#pragma once

#include "bench/report/table.hpp"

namespace octet::bench {

// Where a row comes from: commit, device sources, CPU, and what the clocks did while it was timed.
Row machine_columns();
// A linear layer, forward and backward. The first 17 are a contract.
Row gemm_columns(bool with_baseline);
// A kernel that memory bounds, beside a copy of the same bytes.
Row memory_columns();
// An operator that memory bounds, forward and backward, each beside a copy of the same bytes.
Row memory_step_columns();
// A gated MLP, forward and backward, beside its unfused chain.
Row mlp_columns();

// "31.62", enough digits for every rate; empty for NaN.
std::string number(double value);
// The same with as many digits as said, whatever the locale of the program is.
std::string digits(double value, int count);

}  // namespace octet::bench
