// Element types. One spelling everywhere: f32 f16 bf16 e4m3 e5m2 ue8m0, i32 and i64 for indices.
#pragma once

#include <octet/export.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace octet {

// Numbers are stable: they are the octet_dtype of the C API.
enum class Dtype : std::int32_t {
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  e4m3 = 4,   // 1 sign, 4 exponent, 3 mantissa bits; largest 448; no infinities, NaN is 0x7F
  e5m2 = 5,   // 1 sign, 5 exponent, 2 mantissa bits; largest 57344; IEEE infinities and NaN
  ue8m0 = 6,  // an unsigned power of two, for scales
  i32 = 7,    // positions and other indices
  i64 = 8,
};

constexpr int size_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::i64: return 8;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::f16:
    case Dtype::bf16: return 2;
    case Dtype::e4m3:
    case Dtype::e5m2:
    case Dtype::ue8m0: return 1;
  }
  return 0;
}

constexpr bool is_fp8(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }
constexpr bool is_16bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }

// "bf16"; "unknown dtype" for an unknown number.
OCTET_API std::string_view name(Dtype dtype);
OCTET_API std::optional<Dtype> parse_dtype(std::string_view text);

}  // namespace octet
