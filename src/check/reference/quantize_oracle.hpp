// The quantiser as docs/numerics.md defines it, written a second time to judge the first: a value's
// code is the number of rounding thresholds at or below its magnitude, where the thresholds are the
// midpoints between neighbouring values of the format, taken from its definition (decode.hpp).
#pragma once

#include <octet/ops/quantize.hpp>
#include <octet/quantized.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace octet {

struct OracleRules {
  Dtype format = Dtype::e4m3;
  BlockShape block = kBlock1x128;
  float amax_floor = 0;
  bool pow2_scales = false;
  bool fold_mx = false;               // 1x128 and 128x128 blocks of folded mx blocks
  MxScale mx_scale = MxScale::floor;  // of mx blocks, folded or not
  // With allxall blocks, the largest finite magnitude of the tensor that the input is a part of;
  // empty: of the input.
  std::optional<float> amax{};
  float given_scale = 0;  // of every block; 0: scales follow from the elements
};

// Values [rows, cols] and scales, both dense.
struct OracleTensor {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  OracleRules rules;
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  std::vector<std::uint8_t> mx_scales;  // ue8m0, of mx blocks, instead of `scales`

  QuantizedView view() const;
};

// `input`: f32, f16 or bf16 in any strides.
OracleTensor quantize_oracle(const TensorView& input, const OracleRules& rules, int threads);

}  // namespace octet
