// Every FP8 code times every power of two that folding multiplies by.
#pragma once

#include "core/numeric.hpp"
#include "ops/quantize/mx_scale.hpp"

#include <memory>

namespace octet {

inline constexpr int kFoldShifts = 40;  // 57344 * 2^-39 rounds to zero in e5m2

struct FoldTable {
  std::uint8_t codes[kFoldShifts][256];  // by shift and code
};

inline const FoldTable& fold_table(Dtype format) {
  const auto make = [](Dtype dtype) {
    auto table = std::make_unique<FoldTable>();
    for (int shift = 0; shift < kFoldShifts; ++shift) {
      for (int code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        const float value = load_f32(&byte, 0, dtype) * power_of_two(-shift);
        table->codes[shift][code] = fp8_from_f32(value, fp8_format(dtype));
      }
    }
    return table;
  };
  static const auto e4m3 = make(Dtype::e4m3);
  static const auto e5m2 = make(Dtype::e5m2);
  return format == Dtype::e5m2 ? *e5m2 : *e4m3;
}

}  // namespace octet
