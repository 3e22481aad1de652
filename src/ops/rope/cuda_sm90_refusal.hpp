// Which problems the Hopper kernels of rope and rms_norm_rope refuse. Compiled with and without
// CUDA.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/rope/rotation.hpp"

namespace octet {

inline std::string refuse_heads_on_hopper(const RotatedHeads& heads, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(heads.device, machine); !refusal.empty()) {
    return refusal;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (heads.tokens() >= kMost) return "more than 2^31 tokens";
  return std::max(heads.q_heads, heads.k_heads) * heads.head_dim >= kMost
             ? "more than 2^31 elements of a token"
             : "";
}

}  // namespace octet
