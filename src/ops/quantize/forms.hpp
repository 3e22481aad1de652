// The forms of quantize: which kinds of scales a problem asks for.
#pragma once

#include <octet/ops/quantize.hpp>

#include <optional>
#include <string_view>

namespace octet {

std::string_view name(MxScale scale);  // "floor", "even", "up"

// Every copy has blocks of 128 whose scales follow from their own elements, without mx inside.
inline bool has_plain_blocks(const QuantizeProblem& problem) {
  const auto is_plain = [](const std::optional<BlockShape>& block) {
    return !block || *block == kBlock1x128 || *block == kBlock128x1 || *block == kBlock128x128;
  };
  return is_plain(problem.block) && is_plain(problem.transposed_block) && !problem.given_scales &&
         !problem.fold_mx;
}

}  // namespace octet
