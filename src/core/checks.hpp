// What every operator asks of its arguments. Each function throws an Error that names operator,
// argument, what was given and what was wanted.
#pragma once

#include <octet/plan.hpp>
#include <octet/quantized.hpp>

#include <initializer_list>
#include <string_view>

namespace octet {

// Names an argument in messages: {"gemm", "a"}.
struct Argument {
  std::string_view op;
  std::string_view name;
};

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t step) {
  return value / step + (value % step != 0);
}
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return ceil_div(value, step) * step;
}

// `name` >= 0: nothing to do is no mistake.
void check_count(std::string_view op, std::string_view name, std::int64_t count);
// `name` >= 1.
void check_extent(std::string_view op, std::string_view name, std::int64_t extent);
// rows * cols * size_bytes(dtype) stays within 2^60.
void check_size(std::string_view op, std::int64_t rows, std::int64_t cols, Dtype dtype);
// A device of this machine.
void check_device(std::string_view op, Device device);
// One of f32, f16, bf16.
void check_float(Argument argument, Dtype dtype);
void check_fp8(Argument argument, Dtype dtype);
// Finite, >= 0.
// The largest power of ten whose square, summed over a slice of 128 products, is finite in f32. Beyond
// about 8e21 the product of two scales is infinite, and zeros become NaN.
inline constexpr float kMaxAmaxFloor = 1e18f;
void check_amax_floor(std::string_view op, float amax_floor);

// [rows, cols] of `dtype` on `device`, not null, aligned to its element, columns contiguous, rows
// that do not overlap. `wanted` says where the shape comes from: "[M, N]".
void check_matrix(Argument argument, const TensorView& view, Dtype dtype, std::int64_t rows,
                  std::int64_t cols, Device device, std::string_view wanted);
// The same for a matrix in which either dimension may be the contiguous one.
void check_strided_matrix(Argument argument, const TensorView& view, Dtype dtype, std::int64_t rows,
                          std::int64_t cols, Device device, std::string_view wanted);

enum class Pitch { any, aligned16 };  // aligned16: rows start on 16-byte boundaries

// A contiguous vector of `length` elements; nothing is asked of the memory of an empty one.
void check_vector(Argument argument, const TensorView& view, Dtype dtype, std::int64_t length,
                  Device device, std::string_view wanted);
// A tensor of any rank whose last dimension is contiguous and whose elements lie apart; nothing is
// asked of the memory of an empty one.
void check_tensor(Argument argument, const TensorView& view, Dtype dtype,
                  std::initializer_list<std::int64_t> shape, Device device,
                  std::string_view wanted);

// FP8 values and f32 scales of `block`.
void check_quantized(Argument argument, const QuantizedView& view, Dtype dtype, std::int64_t rows,
                     std::int64_t cols, BlockShape block, Device device, Pitch pitch,
                     std::string_view wanted);

void check_workspace(std::string_view op, std::size_t wanted_bytes, const Workspace& workspace);

// The same memory seen in the same way: what an operator that works in place may be given.
bool same_view(const TensorView& x, const TensorView& y);
// `out` shares no byte with `in` (parts of the lines of one tensor, as q and k in a packed one, are
// apart), nor do its scales with one another or with its values; padding
// counts where a view owns it. Views without data never overlap.
void check_no_overlap(std::string_view op, std::string_view out_name, const TensorView& out,
                      std::string_view in_name, const TensorView& in);
void check_no_overlap(std::string_view op, std::string_view out_name, const QuantizedView& out,
                      std::string_view in_name, const QuantizedView& in);

struct NamedView {
  std::string_view name;
  QuantizedView view;
};
// No output shares memory with an input or with another output. Leave out what is ignored: a view
// without data.
void check_outputs_apart(std::string_view op, std::initializer_list<NamedView> outputs,
                         std::initializer_list<NamedView> inputs);

// The part of a workspace that is used shares no byte with the arguments of the call.
void check_workspace_apart(std::string_view op, std::size_t used_bytes, const Workspace& workspace,
                           std::initializer_list<NamedView> arguments);

}  // namespace octet
