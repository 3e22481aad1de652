// The numbers behind the bits of every format, from the definition of the format: sign, exponent
// and mantissa put together with ldexp. Shares nothing with src/core/numeric.hpp, which it judges.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// The value of one code of e4m3 or e5m2.
double decode_fp8(std::uint8_t code, Dtype dtype);
// 256 values, by code.
const double* fp8_values(Dtype dtype);

// Element `index` of a tensor of any dtype but ue8m0.
double decode(const void* data, std::int64_t index, Dtype dtype);
// Element (row, col) of a matrix.
double decode(const TensorView& matrix, std::int64_t row, std::int64_t col);

// The same quantised matrix with rows and columns exchanged.
QuantizedView transposed(const QuantizedView& view);

// out[k * width + i] = element (rows[i], first + k) of a matrix, times its scale if any,
// for i < count and k < depth; zero for count <= i < width.
void decode_panel(const QuantizedView& view, const std::int64_t* rows, int count, int width,
                  std::int64_t first, int depth, double* out);

// The properties of f32, f16 or bf16 that rounding needs.
struct FloatFormat {
  double half_ulp_of_one = 0;
  double smallest_normal = 0;
  double overflow = 0;  // the smallest magnitude that rounds to infinity
};
FloatFormat float_format(Dtype dtype);
// Rounds to nearest even in f32, f16 or bf16.
double rounded(double value, Dtype dtype);

}  // namespace octet
