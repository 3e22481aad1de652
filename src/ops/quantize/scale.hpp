// The scale of one block, frozen: the same two f32 divisions on every device.
#pragma once

#include "core/numeric.hpp"

namespace octet {

struct BlockScale {
  float forward;  // q = cast(x * forward)
  float inverse;  // x is recovered as q * inverse
};

// scale_inv rounded up to a power of two; `scale` is finite, normal and positive.
OCTET_HOST_DEVICE constexpr float round_up_to_power_of_two(float scale) {
  return f32_from_bits((bits_of(scale) + 0x007FFFFFu) & 0xFF800000u);
}

// amax: the largest finite magnitude of the block, 0 if there is none.
OCTET_HOST_DEVICE constexpr BlockScale block_scale(float amax, float limit, float amax_floor,
                                                   bool pow2_scales) {
  float a = amax > amax_floor ? amax : amax_floor;
  if (a == 0) return {1, 1};
  const float smallest = limit * f32_from_bits(1u << 23);  // limit * 2^-126
  if (a < smallest) a = smallest;
  if (pow2_scales) {
    const float inverse = round_up_to_power_of_two(a / limit);
    return {1 / inverse, inverse};
  }
  return {limit / a, a / limit};
}

}  // namespace octet
