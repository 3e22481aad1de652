// What the Hopper kernels for whole lines and for mx blocks refuse alike; empty if they do not.
#pragma once

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/quantize/problem.hpp"

#include <string>

namespace octet {

inline std::string refuse_input(const QuantizeProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (is_16bit(problem.input_dtype)) return "";
  return text("takes bf16 and f16, the problem has ", name(problem.input_dtype));
}

// A block of the grid takes one tile.
inline std::string refuse_many_tiles(const QuantizeProblem& problem) {
  const std::int64_t most = (std::int64_t{1} << 31) / ceil_div(problem.cols, kBlock) - 1;
  return ceil_div(problem.rows, kBlock) > most ? "more than 2^31 tiles of 128x128" : "";
}

}  // namespace octet
