// From the views of a call to the parameters of the Hopper kernels of rope and rms_norm_rope, and
// the launch of the forward kernels.
#pragma once

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/rope/cuda_sm90_heads.cuh"
#include "ops/rope/rotation.hpp"

#include <algorithm>
#include <vector>

namespace octet::sm90 {

inline Heads heads_of(const TensorView& view) {
  return {view.data, {view.strides[0], view.strides[1], view.strides[2]}};
}

inline Angles angles_of(const RotatedHeads& heads, const RotationArgs& args, bool inverse) {
  const Rotation& rotation = heads.rotation;
  Angles angles{};
  angles.cos = args.cos.data;
  angles.sin = args.sin.data;
  angles.dtype = rotation.cache_dtype;
  angles.cos_pitch = args.cos.strides[0];
  angles.sin_pitch = args.sin.strides[0];
  angles.rows = rotation.cache_rows;
  angles.pair_step = rotation.full_cache && rotation.style == RopeStyle::interleaved ? 2 : 1;
  angles.vectors = rotation.cache_dtype == Dtype::f32 && angles.pair_step == 1 &&
                   cuda::are_aligned16({args.cos, args.sin});
  if (rotation.positions_dtype) {
    angles.positions = args.positions.data;
    angles.wide_positions = *rotation.positions_dtype == Dtype::i64;
    angles.position_strides[0] = args.positions.strides[0];
    angles.position_strides[1] = args.positions.strides[1];
  }
  angles.inverse = inverse;
  return angles;
}

inline HeadShape shape_of(const RotatedHeads& heads) {
  HeadShape shape{};
  shape.seq = static_cast<unsigned>(heads.seq);
  shape.head_dim = static_cast<int>(heads.head_dim);
  shape.rotary_dim = static_cast<int>(heads.rotation.rotary_dim);
  shape.units = shape.head_dim / kUnitElements;
  shape.units_log2 = cuda::log2_up(shape.units);
  return shape;
}

// Whether every head of a tensor starts on a 16-byte boundary.
inline bool has_aligned_heads(const TensorView& view) {
  if (view.data == nullptr) return true;
  std::int64_t stride_bytes = 0;  // of all strides, or-ed
  for (int i = 0; i < 3; ++i) {
    if (view.shape[i] > 1) stride_bytes |= view.strides[i] * size_bytes(view.dtype);
  }
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && stride_bytes % 16 == 0;
}

// Whether a head consists of whole units, at most one per lane of a warp.
inline bool has_units(const RotatedHeads& heads) {
  return heads.head_dim % kUnitElements == 0 && heads.rotation.rotary_dim % kUnitElements == 0 &&
         heads.head_dim / kUnitElements <= 32 &&
         heads.tokens() < (std::int64_t{1} << 32) / kHeadThreads;
}

// One of q and k.
struct RotatedSide {
  std::int64_t heads = 0;
  TensorView in;
  TensorView out;
  TensorView g{};
  TensorView rstd{};
};

struct RotateCall {
  RotatedHeads heads;
  RotationArgs rotation;
  bool inverse = false;
  float eps = 0;
  bool one_plus_weight = false;
  std::vector<RotatedSide> sides;
  void* stream = nullptr;
};

// The same for backward of rms_norm_rope.
struct RotatedBackSide : BackwardSide {
  std::int64_t blocks = 0;
  float* partials = nullptr;  // [blocks, columns of dg]
};

struct RotateBackCall {
  RotatedHeads heads;
  RotationArgs rotation;
  bool one_plus_weight = false;
  std::vector<RotatedBackSide> sides;
  void* stream = nullptr;
};

// The kernels that take one pair at a time (cuda_sm90_pairs.cuh).
void launch_rotate_pairs(const RotateCall& call, HeadNorm norm);
void launch_rotate_pairs_back(const RotateBackCall& call, HeadNorm norm);

// Units that a thread holds at a time. With the norm over a row these are all of its units: two
// where that is enough and no thread is idle, else four. bf16 on an H200, normed by row:
// 8x2048x4096 runs at 0.94 of the speed of a copy with two and 0.93 with four; 4x4096x5120, whose
// 40 heads leave lanes idle either way, at 0.63 and 0.69.
inline constexpr int kFewUnits = 2;
inline constexpr int kManyUnits = 4;

template <HeadNorm kNorm>
int threads_log2(const HeadShape& shape, std::int64_t heads, int units) {
  const int units_log2 = cuda::log2_up(ceil_div(heads << shape.units_log2, units));
  const int most = kNorm == HeadNorm::row ? 8 : 6;
  return std::max(shape.units_log2, std::min(units_log2, most));
}

// Whether all threads of a token have the same number of units.
template <HeadNorm kNorm>
bool fills_threads(const HeadShape& shape, std::int64_t heads, int units) {
  return heads % (units << (threads_log2<kNorm>(shape, heads, units) - shape.units_log2)) == 0;
}

// Depends only on the problem, so that the order of sums does not depend on the addresses of the
// tensors.
template <HeadNorm kNorm>
bool takes_units(const RotateCall& call, int units) {
  bool result = has_units(call.heads);
  for (const RotatedSide& side : call.sides) {
    result = result && (kNorm != HeadNorm::row || (side.heads << shape_of(call.heads).units_log2) <=
                                                      std::int64_t{kHeadThreads} * units);
  }
  return result;
}

template <Dtype kDtype, HeadNorm kNorm>
Checks checks_of(const HeadsParams& params, const HeadsInOut& tensor, int units,
                 unsigned block_tokens) {
  const HeadShape& shape = params.shape;
  const bool plain = kNorm == HeadNorm::none ||
                     (tensor.g.aligned && tensor.g.dtype == kDtype && !params.one_plus_weight);
  const bool simple = params.aligned && plain && params.angles.vectors &&
                      shape.rotary_dim == shape.head_dim && shape.units == 1 << shape.units_log2 &&
                      params.tokens % block_tokens == 0;
  if (!simple) return Checks::all;
  return fills_threads<kNorm>(shape, tensor.heads, units) ? Checks::none : Checks::heads;
}

template <Dtype kDtype, HeadNorm kNorm, int kUnits>
void launch_units(const RotateCall& call) {
  HeadsParams params{};
  params.angles = angles_of(call.heads, call.rotation, call.inverse);
  params.shape = shape_of(call.heads);
  params.tokens = static_cast<unsigned>(call.heads.tokens());
  params.eps = call.eps;
  params.one_plus_weight = call.one_plus_weight;
  params.aligned = true;
  int block_log2 = kNorm == HeadNorm::row ? 6 : 7;
  for (const RotatedSide& side : call.sides) {
    block_log2 = std::max(block_log2, threads_log2<kNorm>(params.shape, side.heads, kUnits));
    params.aligned = params.aligned && has_aligned_heads(side.in) && has_aligned_heads(side.out);
  }
  unsigned blocks = 0;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedSide& side = call.sides[i];
    HeadsInOut& tensor = params.tensors[i];
    tensor.in = heads_of(side.in);
    tensor.out = heads_of(side.out);
    tensor.g = {side.g.data, side.g.dtype, cuda::is_aligned16(side.g)};
    tensor.rstd = static_cast<float*>(side.rstd.data);
    tensor.heads = static_cast<int>(side.heads);
    const std::int64_t normed = kNorm == HeadNorm::row ? side.heads : 1;
    tensor.one_over_count = 1.0f / static_cast<float>(normed * call.heads.head_dim);
    tensor.threads_log2 = threads_log2<kNorm>(params.shape, side.heads, kUnits);
    const std::int64_t block_tokens = std::int64_t{1} << (block_log2 - tensor.threads_log2);
    tensor.blocks = static_cast<unsigned>(ceil_div(call.heads.tokens(), block_tokens));
    tensor.checks =
        checks_of<kDtype, kNorm>(params, tensor, kUnits, static_cast<unsigned>(block_tokens));
    blocks += tensor.blocks;
  }
  const auto kernel = call.heads.rotation.style == RopeStyle::rotate_half
                          ? rotate_heads_kernel<kDtype, RopeStyle::rotate_half, kNorm, kUnits>
                          : rotate_heads_kernel<kDtype, RopeStyle::interleaved, kNorm, kUnits>;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_heads", blocks,
                1u << block_log2, 0, static_cast<cudaStream_t>(call.stream)},
               arguments);
}

template <Dtype kDtype, HeadNorm kNorm>
void rotate(const RotateCall& call) {
  const bool few = takes_units<kNorm>(call, kFewUnits);
  if constexpr (kNorm == HeadNorm::row && kDtype != Dtype::f32) {
    const HeadShape shape = shape_of(call.heads);
    const bool idle = std::ranges::any_of(call.sides, [&](const RotatedSide& side) {
      return !fills_threads<kNorm>(shape, side.heads, kFewUnits);
    });
    if ((!few || idle) && takes_units<kNorm>(call, kManyUnits)) {
      return launch_units<kDtype, kNorm, kManyUnits>(call);
    }
  }
  if (few) return launch_units<kDtype, kNorm, kFewUnits>(call);
  launch_rotate_pairs(call, kNorm);
}

template <HeadNorm kNorm>
void rotate(const RotateCall& call) {
  if (call.heads.tokens() == 0) return;
  const cuda::DeviceScope scope(call.heads.device.index);
  switch (call.heads.dtype) {
    case Dtype::bf16: rotate<Dtype::bf16, kNorm>(call); break;
    case Dtype::f16: rotate<Dtype::f16, kNorm>(call); break;
    default: rotate<Dtype::f32, kNorm>(call); break;
  }
}

}  // namespace octet::sm90
