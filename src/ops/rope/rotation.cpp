#include "ops/rope/rotation.hpp"

#include "core/message.hpp"
#include "dispatch/implementation.hpp"

namespace octet {
namespace {

void check_dims(std::string_view op, const RotatedHeads& heads) {
  check_extent(op, "head_dim", heads.head_dim);
  if (heads.head_dim % 2 != 0) {
    refuse_argument(op, ": head_dim must be even, got ", heads.head_dim);
  }
  const std::int64_t rotary_dim = heads.rotation.rotary_dim;
  if (rotary_dim < 0 || rotary_dim % 2 != 0 || rotary_dim > heads.head_dim) {
    refuse_argument(op, ": rotary_dim must be even and at most head_dim = ", heads.head_dim,
                    ", got ", rotary_dim);
  }
}

void check_caches(std::string_view op, const RotatedHeads& heads) {
  const Rotation& rotation = heads.rotation;
  if (rotation.style != RopeStyle::rotate_half && rotation.style != RopeStyle::interleaved) {
    refuse_argument(op, ": style must be rotate_half or interleaved, got ",
                    static_cast<std::int32_t>(rotation.style));
  }
  check_float({op, "cache_dtype"}, rotation.cache_dtype);
  check_count(op, "cache_rows", rotation.cache_rows);
  if (rotation.positions_dtype) {
    const Dtype positions = *rotation.positions_dtype;
    if (positions != Dtype::i32 && positions != Dtype::i64) {
      refuse_argument(op, ": positions_dtype must be i32 or i64, got ", name(positions));
    }
  } else if (rotation.cache_rows < heads.seq) {
    refuse_argument(op, ": cache_rows must be at least seq = ", heads.seq,
                    " where no positions are given, got ", rotation.cache_rows);
  }
  check_size(op, rotation.cache_rows, rotation.rotary_dim, rotation.cache_dtype);
}

void check_sizes(std::string_view op, const RotatedHeads& heads) {
  check_size(op, heads.batch, heads.seq, Dtype::i64);
  for (const std::int64_t count : {heads.q_heads, heads.k_heads}) {
    check_size(op, count, heads.head_dim, heads.dtype);
    check_size(op, heads.tokens(), count * heads.head_dim, heads.dtype);
  }
}

void read_positions(Call& call, const RotatedHeads& heads, const RotationArgs& args) {
  const Rotation& rotation = heads.rotation;
  constexpr std::string_view kShape = "[batch, seq]";
  if (heads.tokens() == 0) {
    call.reads("positions", args.positions,
               TensorForm(*rotation.positions_dtype, {heads.batch, heads.seq}, kShape));
    return;
  }
  // Rows may share memory: one row for all batches.
  check_strided_matrix({call.op(), "positions"}, args.positions,
                       {*rotation.positions_dtype, heads.batch, heads.seq, kShape}, heads.device);
  call.reads_checked("positions", args.positions);
  if (heads.device.type != DeviceType::cpu) return;
  for (std::int64_t b = 0; b < heads.batch; ++b) {
    for (std::int64_t s = 0; s < heads.seq; ++s) {
      const std::int64_t position = position_of(rotation, args, b, s);
      if (position < 0 || position >= rotation.cache_rows) {
        refuse_argument(call.op(), ": positions[", b, ", ", s, "] is ", position,
                        ", cos and sin have ", rotation.cache_rows, " rows");
      }
    }
  }
}

}  // namespace

std::int64_t position_of(const Rotation& rotation, const RotationArgs& args, std::int64_t batch,
                         std::int64_t token) {
  if (!rotation.positions_dtype) return token;
  const TensorView& positions = args.positions;
  const std::int64_t index = batch * positions.strides[0] + token * positions.strides[1];
  return *rotation.positions_dtype == Dtype::i32
             ? static_cast<const std::int32_t*>(positions.data)[index]
             : static_cast<const std::int64_t*>(positions.data)[index];
}

TokenAngles::TokenAngles(const Rotation& rotation, const RotationArgs& args, std::int64_t batch,
                         std::int64_t token)
    : cos_(args.cos),
      sin_(args.sin),
      row_(position_of(rotation, args, batch, token)),
      step_(rotation.full_cache && rotation.style == RopeStyle::interleaved ? 2 : 1) {}

std::string describe_shape(const RotatedHeads& heads) {
  std::string result = text(" --shape ", heads.batch, "x", heads.seq, "x",
                            heads.q_heads * heads.head_dim, " --head-dim ", heads.head_dim);
  if (heads.k_heads > 0) result += text(" --kv-heads ", heads.k_heads);
  return result;
}

std::string describe_rotation(const Rotation& rotation) {
  std::string result;
  if (rotation.style == RopeStyle::interleaved) result += " --style interleaved";
  if (rotation.rotary_dim != 0) result += text(" --rotary-dim ", rotation.rotary_dim);
  if (rotation.cache_rows != 0) result += text(" --cache-rows ", rotation.cache_rows);
  if (rotation.full_cache) result += " --full-cache";
  if (rotation.cache_dtype != Dtype::f32) result += text(" --cache ", name(rotation.cache_dtype));
  if (rotation.positions_dtype) result += text(" --positions ", name(*rotation.positions_dtype));
  return result;
}

void check_rotated_heads(std::string_view op, const RotatedHeads& heads) {
  check_count(op, "batch", heads.batch);
  check_count(op, "seq", heads.seq);
  check_extent(op, "q_heads", heads.q_heads);
  check_count(op, "k_heads", heads.k_heads);
  check_float({op, "dtype"}, heads.dtype);
  check_dims(op, heads);
  check_caches(op, heads);
  check_sizes(op, heads);
  check_device(op, heads.device);
}

void read_rotation(Call& call, const RotatedHeads& heads, const RotationArgs& args) {
  const TensorForm cache(
      heads.rotation.cache_dtype, {heads.rotation.cache_rows, heads.cache_cols()},
      heads.rotation.full_cache ? "[cache_rows, rotary_dim]" : "[cache_rows, rotary_dim / 2]");
  call.reads("cos", args.cos, cache);
  call.reads("sin", args.sin, cache);
  if (heads.rotation.positions_dtype) read_positions(call, heads, args);
}

std::string refuse_heads_on_hopper(const RotatedHeads& heads, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(heads.device, machine); !refusal.empty()) {
    return refusal;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (heads.tokens() >= kMost) return "more than 2^31 tokens";
  return std::max(heads.q_heads, heads.k_heads) * heads.head_dim >= kMost
             ? "more than 2^31 elements of a token"
             : "";
}

}  // namespace octet
