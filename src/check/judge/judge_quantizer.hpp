// Q for a quantised tensor whose input is known: against quantize_oracle, whole on the CPU; on CUDA
// in 128x128 tiles, which the oracle quantises one by one as no block crosses their edges.
#pragma once

#include "check/judge/judge.hpp"
#include "check/reference/quantize_oracle.hpp"

#include <string>
#include <vector>

namespace octet {

// All tiles of a tensor on CUDA are judged up to this many; beyond, as many drawn ones, and the
// four at the corners.
inline constexpr std::int64_t kJudgedTiles = 256;

// `given`: [R, C]; `input`: the same shape, one dimension contiguous.
GateResult judge_quantizer(const std::string& tensor, const QuantizedView& given,
                           const TensorView& input, const OracleRules& rules,
                           const JudgeOptions& options);

// The tiles of a row_tiles x col_tiles tensor that are judged, numbered row by row, ascending.
std::vector<std::int64_t> judged_tiles(std::int64_t row_tiles, std::int64_t col_tiles,
                                       std::uint64_t seed);

}  // namespace octet
