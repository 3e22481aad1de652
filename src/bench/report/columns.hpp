// The columns of result files: the same whether the octet command or a user's program writes them.
#pragma once

#include "bench/report/record.hpp"

namespace octet::bench {

// The origin of a row: commit, device sources, CPU, and the clocks while it was timed.
Row machine_columns();
// A linear layer, forward and backward. The first 17 are a contract.
Row gemm_columns(bool with_baseline);
// A cast, or another memory-bound kernel of one call, beside a copy of the same bytes.
Row cast_columns();
// A memory-bound operator, forward and backward, each beside a copy of the same bytes.
Row memory_step_columns();
// A gated MLP, forward and backward, beside its unfused chain.
Row mlp_columns();

}  // namespace octet::bench
