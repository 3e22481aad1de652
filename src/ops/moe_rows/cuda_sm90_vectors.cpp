// Which problems the Hopper kernels of moe_permute and moe_unpermute take. Compiled with and
// without CUDA.
#include "ops/moe_rows/sm90_steps.hpp"

#include <algorithm>
#include <limits>

namespace octet {

std::string refuse_sm90_rows(std::int64_t tokens, std::int64_t top_k, std::int64_t rows,
                             std::int64_t cols) {
  // The sums of a row's columns wait in shared memory.
  if (cols > std::int64_t{1} << 20) return "more than 2^20 columns";
  // A block has at least 4096 columns of a token, or 8 of its slots, or looks at 32 rows.
  const std::int64_t blocks =
      tokens * std::max(ceil_div(cols, 4096), ceil_div(top_k, 8)) + ceil_div(rows, 32);
  return blocks > std::numeric_limits<std::int32_t>::max() ? "more than 2^31 - 1 blocks" : "";
}

}  // namespace octet
