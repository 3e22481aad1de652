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

// The numbers of a C enum are those of the C++ enum: asserted beside the code that casts them.
template <class Enum>
constexpr bool equal(std::int32_t c_number, Enum value) {
  return c_number == static_cast<std::int32_t>(value);
}

// Upper bound for every version of every struct: a larger struct_size was never set.
inline constexpr std::uint32_t kLargestStruct = 1 << 16;

// The size of a struct as the caller knows it, at least that of the first version.
std::uint32_t read_struct_size(std::string_view op, std::string_view argument, const void* given,
                               std::uint32_t first_size, std::uint32_t known_size);

// The reserved fields of a struct are zero.
template <class Struct>
void check_reserved(std::string_view op, std::string_view argument, const Struct& given) {
  bool zero = std::all_of(std::begin(given.reserved), std::end(given.reserved),
                          [](std::uint64_t word) { return word == 0; });
  if constexpr (requires { given.reserved0; }) zero = zero && given.reserved0 == 0;
  if (!zero) refuse_argument(op, ": reserved room of ", argument, " must be zero");
}

// A struct inside another one, or written by octet, has a fixed size: it grows into its reserved
// fields.
template <class Struct>
void check_nested(std::string_view op, std::string_view argument, const Struct& given) {
  if (given.struct_size != sizeof(Struct)) {
    refuse_argument(op, ": struct_size of ", argument, " must be ", sizeof(Struct), ", got ",
                    given.struct_size, "; the function that makes it sets it");
  }
  check_reserved(op, argument, given);
}

// A copy of a struct that begins with its size. `Struct` is the latest version, and the first one
// too unless its size is given; fields that the caller's version lacks are zero.
template <class Struct>
Struct read_struct(std::string_view op, std::string_view argument, const Struct* given,
                   std::uint32_t first_size = sizeof(Struct)) {
  constexpr std::uint32_t kSize = sizeof(Struct);
  const std::uint32_t size = read_struct_size(op, argument, given, first_size, kSize);
  Struct copy{};
  std::memcpy(&copy, given, std::min(size, kSize));
  check_reserved(op, argument, copy);
  return copy;
}

inline void check_pointer(std::string_view op, std::string_view argument, const void* pointer) {
  if (pointer == nullptr) refuse_argument(op, ": ", argument, " is a null pointer");
}

// The name of a field in messages: "a", or "scale of " and "a", which are joined only in an error.
struct Field {
  std::string_view prefix;
  std::string_view name;

  Field(const char* name_) : name(name_) {}       // NOLINT: meant to convert
  Field(std::string_view name_) : name(name_) {}  // NOLINT: meant to convert
  Field(std::string_view prefix_, std::string_view name_) : prefix(prefix_), name(name_) {}

  friend std::ostream& operator<<(std::ostream& out, const Field& field) {
    return out << field.prefix << field.name;
  }
};

// 0 or 1.
bool read_flag(std::string_view op, const Field& field, std::int32_t value);
// A field reserved for a later version, which must be zero.
void check_unused(std::string_view op, std::string_view field, bool unused);
std::string read_text(const char* text);  // null: empty

Dtype read_dtype(std::string_view op, const Field& argument, octet_dtype dtype);
// 0: none.
std::optional<Dtype> read_optional_dtype(std::string_view op, const Field& argument,
                                         octet_dtype dtype);
Device read_device(std::string_view op, const Field& argument, octet_device device);
BlockShape read_block(std::string_view op, const Field& argument, octet_block block);
// octet_no_copy(): none.
std::optional<BlockShape> read_optional_block(std::string_view op, std::string_view argument,
                                              octet_block block);
// Absent (rank 0, no data): an empty view.
TensorView read_tensor(std::string_view op, const Field& argument, const octet_tensor& tensor);
QuantizedView read_quantized(std::string_view op, std::string_view argument,
                             const octet_quantized& quantized);
GemmOperand read_operand(std::string_view op, std::string_view argument,
                         const octet_gemm_operand& operand);
// A null pointer means all defaults.
PlanOptions read_options(std::string_view op, const octet_plan_options* options);
Fp8LinearOptions read_options(std::string_view op, const octet_fp8_linear_options* options);

// The FP8 output of an operator. Only the requested copies are read.
std::optional<Fp8Output> read_fp8_output(std::string_view op, const octet_fp8_output& c);
Fp8Copies read_fp8_copies(std::string_view op, const Fp8Output& output, const octet_fp8_copies& c);
// The rotation of rope and rms_norm_rope.
Rotation read_rotation(std::string_view op, const octet_rotation& c);
RotationArgs read_rotation_args(std::string_view op, const Rotation& rotation,
                                const octet_rotation_args& c);

// The extents that rope and rms_norm_rope share.
template <class CProblem, class Problem>
void read_heads(const CProblem& c, Problem& problem) {
  problem.batch = c.batch;
  problem.seq = c.seq;
  problem.q_heads = c.q_heads;
  problem.k_heads = c.k_heads;
  problem.head_dim = c.head_dim;
}

// What FP8 layers share: formats, passes, the weight gradient and the share of the GPU.
template <class CProblem, class Problem>
void read_fp8_training(std::string_view op, const CProblem& c, Problem& problem) {
  problem.format = read_dtype(op, "format", c.format);
  problem.grad_format = read_dtype(op, "grad_format", c.grad_format);
  problem.weights_quantized = read_flag(op, "weights_quantized", c.weights_quantized);
  problem.training = read_flag(op, "training", c.training);
  problem.need_dx = read_flag(op, "need_dx", c.need_dx);
  problem.need_dw = read_flag(op, "need_dw", c.need_dw);
  problem.dw_dtype = read_dtype(op, "dw", c.dw_dtype);
  problem.accumulate_dw = read_flag(op, "accumulate_dw", c.accumulate_dw);
  problem.wgrad_blocks = static_cast<WgradBlocks>(c.wgrad_blocks);
  problem.amax_floor = c.amax_floor;
  problem.pow2_scales = read_flag(op, "pow2_scales", c.pow2_scales);
  problem.max_multiprocessors = c.max_multiprocessors;
}

// Of the layers whose scales may be shared in other ways than blockwise.
template <class CProblem, class Problem>
void read_granularity(std::string_view op, const CProblem& c, Problem& problem) {
  problem.granularity = static_cast<Granularity>(c.granularity);
  problem.fast_accumulation = read_flag(op, "fast_accumulation", c.fast_accumulation);
  problem.mx_scale = static_cast<MxScale>(c.mx_scale);
}

octet_tensor write_tensor(const TensorView& view);
octet_quantized write_quantized(const QuantizedView& view);
octet_quantized_layout write_layout(const QuantizedLayout& layout);
octet_quantized_batch_layout write_layout(const QuantizedBatchLayout& layout, bool token_blocks);

}  // namespace octet::c_api
