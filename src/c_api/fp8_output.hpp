// The FP8 output of an operator, as C callers ask for it and give it.
#pragma once

#include "c_api/read.hpp"

namespace octet::c_api {

inline std::optional<Fp8Output> read_fp8_output(std::string_view op, const octet_fp8_output& c) {
  if (!read_flag(op, "fp8.enabled", c.enabled)) return std::nullopt;
  Fp8Output output;
  output.format = read_dtype(op, "fp8.format", c.format);
  output.block = read_optional_block(op, "fp8.out", c.block);
  output.transposed_block = read_optional_block(op, "fp8.transposed", c.transposed_block);
  output.amax_floor = c.amax_floor;
  output.pow2_scales = read_flag(op, "fp8.pow2_scales", c.pow2_scales);
  return output;
}

// Only the copies that are asked for are looked at.
inline Fp8Copies read_fp8_copies(std::string_view op, const Fp8Output& output,
                                 const octet_fp8_copies& c) {
  Fp8Copies copies;
  if (output.block) copies.out = read_quantized(op, "fp8.out", c.out);
  if (output.transposed_block) {
    copies.transposed = read_quantized(op, "fp8.transposed", c.transposed);
  }
  return copies;
}

}  // namespace octet::c_api
