// FP8 copies that an operator writes in place of its 16- or 32-bit output, so that no quantiser has
// to read that output again. They are bit-identical to the operator followed by quantize.hpp: the
// output is rounded to its dtype first.
//
// Copies may have any blocks of quantize.hpp; scales of mx blocks are floored. In one pass operators
// write blocks of 128 and a row-major copy with a scale per row (1xall, without a transposed copy). Other
// scales need the whole output first: there an operator and the quantiser run after each other
// (`unfused`). Over groups, and for adamw, blocks are of 128.
#pragma once

#include <octet/quantized.hpp>

#include <optional>

namespace octet {

// The options of quantize.hpp.
struct Fp8Output {
  Dtype format = Dtype::e4m3;
  std::optional<BlockShape> block = kBlock1x128;  // empty: no copy in the output's orientation
  std::optional<BlockShape> transposed_block = kBlock1x128;  // empty: no transposed copy
  float amax_floor = 0;
  bool pow2_scales = false;

  friend bool operator==(const Fp8Output&, const Fp8Output&) = default;
};

struct Fp8Copies {
  QuantizedView out;         // [rows, cols]; ignored without a block
  QuantizedView transposed;  // [cols, rows]; ignored without a transposed_block
};

}  // namespace octet
