#include "check/reference/decode.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A format with IEEE subnormals; the largest exponent means infinity and NaN.
double decode_ieee(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? kNaN : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// e4m3 has no infinities: its largest exponent holds numbers, except for the last mantissa.
double decode_e4m3(std::uint8_t code) {
  if ((code & 0x7F) == 0x7F) return kNaN;
  const int mantissa = code & 7;
  const int exponent = (code >> 3) & 15;
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
}

const double* fp8_table(Dtype dtype) {
  static const auto make = [](Dtype format) {
    std::array<double, 256> table{};
    for (int code = 0; code < 256; ++code) {
      table[code] = decode_fp8(static_cast<std::uint8_t>(code), format);
    }
    return table;
  };
  static const std::array<double, 256> e4m3 = make(Dtype::e4m3);
  static const std::array<double, 256> e5m2 = make(Dtype::e5m2);
  return dtype == Dtype::e4m3 ? e4m3.data() : e5m2.data();
}

const float* f16_table() {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      values[bits] = static_cast<float>(decode_ieee(bits, 5, 10));
    }
    return values;
  }();
  return table.data();
}

// One reader per format: reader(index) is an element.
struct F32Reader {
  const float* data;
  double operator()(std::int64_t index) const { return data[index]; }
};
struct Bf16Reader {
  const std::uint16_t* data;
  double operator()(std::int64_t index) const {  // bf16 is the upper half of f32
    const std::uint32_t bits = std::uint32_t{data[index]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};
struct F16Reader {
  const std::uint16_t* data;
  const float* table = f16_table();
  double operator()(std::int64_t index) const { return table[data[index]]; }
};
struct Fp8Reader {
  const std::uint8_t* data;
  const double* table;
  double operator()(std::int64_t index) const { return table[data[index]]; }
};

// Calls use(reader) with the reader of a tensor's format.
template <class Use>
auto with_reader(const void* data, Dtype dtype, const Use& use) {
  switch (dtype) {
    case Dtype::f32: return use(F32Reader{static_cast<const float*>(data)});
    case Dtype::bf16: return use(Bf16Reader{static_cast<const std::uint16_t*>(data)});
    case Dtype::f16: return use(F16Reader{static_cast<const std::uint16_t*>(data)});
    default: return use(Fp8Reader{static_cast<const std::uint8_t*>(data), fp8_table(dtype)});
  }
}

// Reads along the dimension with the smaller stride.
template <class Reader>
void read_panel(const Reader& reader, const TensorView& values, const std::int64_t* rows, int count,
                int width, std::int64_t first, int depth, double* out) {
  const std::int64_t row_stride = values.strides[0];
  const std::int64_t k_stride = values.strides[1];
  if (row_stride < k_stride) {
    for (int k = 0; k < depth; ++k) {
      const std::int64_t column = (first + k) * k_stride;
      for (int i = 0; i < count; ++i) out[k * width + i] = reader(rows[i] * row_stride + column);
    }
    return;
  }
  for (int i = 0; i < count; ++i) {
    const std::int64_t begin = rows[i] * row_stride + first * k_stride;
    for (int k = 0; k < depth; ++k) out[k * width + i] = reader(begin + k * k_stride);
  }
}

// The index of the block that holds a row or column.
std::int64_t block_of(std::int64_t at, std::int64_t block) {
  return block == kAll ? 0 : at / block;
}

double decode_scale(const TensorView& scales, std::int64_t index) {
  if (scales.dtype != Dtype::ue8m0) return static_cast<const float*>(scales.data)[index];
  const int exponent = static_cast<const std::uint8_t*>(scales.data)[index];
  return exponent == 255 ? kNaN : std::ldexp(1, exponent - 127);
}

void scale_panel(const QuantizedView& view, const std::int64_t* rows, int count, int width,
                 std::int64_t first, int depth, double* out) {
  constexpr int kMaxWidth = 128;
  double scale[kMaxWidth];
  for (int k = 0; k < depth; ++k) {
    if (k == 0 || (view.block.cols != kAll && (first + k) % view.block.cols == 0)) {
      const std::int64_t column = block_of(first + k, view.block.cols) * view.scales.strides[1];
      for (int i = 0; i < count; ++i) {
        scale[i] = decode_scale(
            view.scales, block_of(rows[i], view.block.rows) * view.scales.strides[0] + column);
      }
    }
    for (int i = 0; i < count; ++i) out[k * width + i] *= scale[i];
  }
}

}  // namespace

double decode_fp8(std::uint8_t code, Dtype dtype) {
  return dtype == Dtype::e4m3 ? decode_e4m3(code) : decode_ieee(code, 5, 2);
}

const double* fp8_values(Dtype dtype) { return fp8_table(dtype); }

double decode(const void* data, std::int64_t index, Dtype dtype) {
  return with_reader(data, dtype, [&](const auto& reader) { return reader(index); });
}

double decode(const TensorView& matrix, std::int64_t row, std::int64_t col) {
  return decode(matrix.data, row * matrix.strides[0] + col * matrix.strides[1], matrix.dtype);
}

QuantizedView transposed(const QuantizedView& view) {
  QuantizedView result = view;
  result.values = transposed(view.values);
  if (view.scales.data != nullptr) result.scales = transposed(view.scales);
  result.block = {view.block.cols, view.block.rows};
  return result;
}

void decode_panel(const QuantizedView& view, const std::int64_t* rows, int count, int width,
                  std::int64_t first, int depth, double* out) {
  with_reader(view.values.data, view.values.dtype, [&](const auto& reader) {
    read_panel(reader, view.values, rows, count, width, first, depth, out);
  });
  if (view.scales.data != nullptr) scale_panel(view, rows, count, width, first, depth, out);
  for (int k = 0; count < width && k < depth; ++k) {
    for (int i = count; i < width; ++i) out[k * width + i] = 0;
  }
}

FloatFormat float_format(Dtype dtype) {
  if (dtype == Dtype::f16) return {std::ldexp(1, -11), std::ldexp(1, -14), 65520};
  const double half_ulp_of_one = std::ldexp(1, dtype == Dtype::bf16 ? -8 : -24);
  return {half_ulp_of_one, std::ldexp(1, -126), std::ldexp(2 - half_ulp_of_one, 127)};
}

double rounded(double value, Dtype dtype) {
  const FloatFormat format = float_format(dtype);
  if (!std::isfinite(value)) return value;
  if (std::fabs(value) >= format.overflow) return std::copysign(kInfinity, value);
  // Adding 1.5 * 2^52 steps rounds to nearest even and leaves no bit below the step.
  const double power_of_two = std::bit_cast<double>(
      std::bit_cast<std::uint64_t>(std::max(std::fabs(value), format.smallest_normal)) &
      0x7FF0000000000000u);
  const double anchor = std::ldexp(1.5, 53) * format.half_ulp_of_one * power_of_two;
  return (value + anchor) - anchor;
}

}  // namespace octet
