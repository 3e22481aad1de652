// Reads what a C caller gives: every number and pointer is checked before it is used.
#pragma once

#include "core/message.hpp"

#include <octet/octet.h>
#include <octet/octet.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

namespace octet::c_api {

// No version of any struct will be larger: a larger struct_size was never set.
inline constexpr std::uint32_t kLargestStruct = 1 << 16;

// The size of a struct as the caller knows it, at least that of the first version.
std::uint32_t read_struct_size(std::string_view op, std::string_view argument, const void* given,
                               std::uint32_t first_size, std::uint32_t known_size);

// A copy of a struct that begins with its size. `Struct` is both the first and the latest version.
template <class Struct>
Struct read_struct(std::string_view op, std::string_view argument, const Struct* given) {
  constexpr std::uint32_t kSize = sizeof(Struct);
  read_struct_size(op, argument, given, kSize, kSize);
  Struct copy;
  std::memcpy(&copy, given, kSize);
  bool zero = std::all_of(std::begin(copy.reserved), std::end(copy.reserved),
                          [](std::uint64_t word) { return word == 0; });
  if constexpr (requires { copy.reserved0; }) zero = zero && copy.reserved0 == 0;
  if (!zero) refuse_argument(op, ": reserved room of ", argument, " must be zero");
  return copy;
}

// A null pointer means all defaults.
template <class Options>
Options read_options(std::string_view op, const Options* given) {
  return given == nullptr ? Options{} : read_struct(op, "options", given);
}

inline void check_pointer(std::string_view op, std::string_view argument, const void* pointer) {
  if (pointer == nullptr) refuse_argument(op, ": ", argument, " is a null pointer");
}

// 0 or 1.
bool read_flag(std::string_view op, std::string_view field, std::int32_t value);
// A field for what comes next.
void check_unused(std::string_view op, std::string_view field, bool unused);
std::string read_text(const char* text);  // null: empty

Dtype read_dtype(std::string_view op, std::string_view argument, octet_dtype dtype);
Device read_device(std::string_view op, std::string_view argument, octet_device device);
BlockShape read_block(std::string_view op, std::string_view argument, octet_block block);
// {0, 0}: none.
std::optional<BlockShape> read_optional_block(std::string_view op, std::string_view argument,
                                              octet_block block);
// Absent (rank 0, no data): an empty view.
TensorView read_tensor(std::string_view op, std::string_view argument, const octet_tensor& tensor);
QuantizedView read_quantized(std::string_view op, std::string_view argument,
                             const octet_quantized& quantized);
PlanOptions read_plan_options(std::string_view op, const octet_plan_options* options);
Fp8LinearOptions read_fp8_linear_options(std::string_view op,
                                         const octet_fp8_linear_options* options);

octet_tensor write_tensor(const TensorView& view);
octet_quantized write_quantized(const QuantizedView& view);
octet_quantized_layout write_layout(const QuantizedLayout& layout);

}  // namespace octet::c_api
