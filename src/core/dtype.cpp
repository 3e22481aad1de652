#include <octet/dtype.hpp>

#include <array>
#include <utility>

namespace octet {
namespace {

constexpr std::array<std::pair<Dtype, std::string_view>, 8> kNames{{
    {Dtype::f32, "f32"},
    {Dtype::f16, "f16"},
    {Dtype::bf16, "bf16"},
    {Dtype::e4m3, "e4m3"},
    {Dtype::e5m2, "e5m2"},
    {Dtype::ue8m0, "ue8m0"},
    {Dtype::i32, "i32"},
    {Dtype::i64, "i64"},
}};

}  // namespace

std::string_view name(Dtype dtype) {
  for (const auto& [value, text] : kNames) {
    if (value == dtype) return text;
  }
  return "unknown dtype";
}

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const auto& [value, spelling] : kNames) {
    if (spelling == text) return value;
  }
  return std::nullopt;
}

}  // namespace octet
