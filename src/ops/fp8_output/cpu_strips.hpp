// FP8 outputs on the CPU without a second trip to memory: strips of 128 rows of the output are
// computed in the workspace and cast while they are still in the caches.
#pragma once

#include "cpu/instruction_set.hpp"
#include "dispatch/implementation.hpp"

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/quantize.hpp>

#include <cstddef>
#include <functional>

namespace octet {

// Where a strip is computed: rows [row, row + rows) of the output, `pitch` elements apart.
struct Fp8Strip {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  void* data = nullptr;
  std::int64_t pitch = 0;
};

// `output`: the cast that follows the plain operator (quantize_problem() in
// ops/fp8_output/checks.hpp).
std::size_t fp8_strips_workspace_bytes(const QuantizeProblem& output, int threads);

// Calls make(strip) for every strip, on several threads at once, and casts what it made. A strip has
// rows of one group; `table` is that of the groups, if there are any.
void write_fp8_strips(const QuantizeProblem& output, const Fp8Copies& copies,
                      const TensorView& table, const RunContext& context,
                      InstructionSet instructions,
                      const std::function<void(const Fp8Strip&)>& make);

}  // namespace octet
