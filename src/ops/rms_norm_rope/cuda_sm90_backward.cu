// Launches the Hopper kernels of rms_norm_rope backward.
#include "ops/rms_norm_rope/cuda_sm90_backward.cuh"

#include "core/workspace.hpp"
#include "device/constant.hpp"
#include "device/rows/launch.hpp"
#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rope/cuda_sm90_call.cuh"

#include <algorithm>

namespace octet {
namespace {

using sm90::HeadGradientParams;
using sm90::HeadNorm;
using sm90::RotateBackCall;
using sm90::RotatedBackSide;

constexpr std::int64_t kMost32 = std::int64_t{1} << 31;  // the kernel has 32 bits for cache rows

// Depends only on the problem, so that the order of sums does not depend on the addresses of the
// tensors.
bool takes_units(const RotateBackCall& call, const BackwardLayout& layout) {
  return sm90::has_units(call.heads) && layout.threads <= kBackMostThreads &&
         call.heads.rotation.cache_rows < kMost32;
}

template <Dtype kDtype>
sm90::HeadsWalk walk_of(const TensorView& view, const sm90::HeadGradients& tensor, unsigned seq) {
  const std::int64_t bytes = size_bytes(kDtype);
  const std::int64_t batches = tensor.step_tokens / seq;
  sm90::HeadsWalk walk;
  walk.heads = sm90::heads_of(view);
  walk.step = (batches * view.strides[0] + tensor.step_seq * view.strides[1]) * bytes;
  walk.wrap = (view.strides[0] - seq * view.strides[1]) * bytes;
  walk.second = tensor.layout.slots * view.strides[2] * bytes;
  return walk;
}

template <Dtype kDtype, HeadNorm kNorm>
sm90::HeadGradients gradients_of(const RotateBackCall& call, const RotatedBackSide& side,
                                 const BackwardHeads& layout) {
  const auto seq = static_cast<unsigned>(call.heads.seq);
  sm90::HeadGradients tensor{};
  tensor.layout = layout;
  tensor.step_tokens = static_cast<unsigned>(layout.streams * layout.group_tokens);
  tensor.step_seq = tensor.step_tokens % seq;
  tensor.dout = walk_of<kDtype>(side.dout, tensor, seq);
  tensor.x = walk_of<kDtype>(side.x, tensor, seq);
  tensor.dx = walk_of<kDtype>(side.dx, tensor, seq);
  tensor.g = {side.g.data, side.g.dtype, cuda::is_aligned16(side.g)};
  tensor.rstd = static_cast<const float*>(side.rstd.data);
  tensor.partials = side.partials;
  tensor.heads = static_cast<int>(side.heads);
  const std::int64_t normed = kNorm == HeadNorm::row ? side.heads : 1;
  tensor.one_over_count = 1.0f / static_cast<float>(normed * call.heads.head_dim);
  tensor.blocks = static_cast<unsigned>(side.blocks);
  return tensor;
}

template <Dtype kDtype, HeadNorm kNorm>
void launch_units(const RotateBackCall& call, const BackwardLayout& layout) {
  using Ring = typename sm90::BackRole<kDtype, RopeStyle::rotate_half, kNorm>::Ring;
  HeadGradientParams params{};
  params.angles = sm90::angles_of(call.heads, call.rotation, false);  // rotate_back() inverts it
  params.angles.vectors = params.angles.vectors && params.angles.cos_pitch < kMost32 &&
                          params.angles.sin_pitch < kMost32;
  params.shape = sm90::shape_of(call.heads);
  params.tokens = static_cast<unsigned>(call.heads.tokens());
  params.one_plus_weight = call.one_plus_weight;
  params.aligned = true;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedBackSide& side = call.sides[i];
    params.tensors[i] = gradients_of<kDtype, kNorm>(call, side, layout.sides[i]);
    params.aligned = params.aligned && sm90::has_aligned_heads(side.dout) &&
                     sm90::has_aligned_heads(side.x) && sm90::has_aligned_heads(side.dx);
  }
  const int gain_units = kNorm == HeadNorm::head ? 1 << layout.units_log2 : layout.threads;
  const std::size_t shared_bytes =
      static_cast<std::size_t>(gain_units) * sm90::kGainBytes + Ring::bytes(layout.threads);
  const auto kernel = call.heads.rotation.style == RopeStyle::rotate_half
                          ? sm90::rotate_heads_back_kernel<kDtype, RopeStyle::rotate_half, kNorm>
                          : sm90::rotate_heads_back_kernel<kDtype, RopeStyle::interleaved, kNorm>;
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_heads",
       params.tensors[0].blocks + params.tensors[1].blocks, static_cast<unsigned>(layout.threads),
       shared_bytes, static_cast<cudaStream_t>(call.stream)},
      arguments);
}

template <HeadNorm kNorm>
void rotate_back(const RotateBackCall& call, const BackwardLayout& layout) {
  const auto with = [&](auto dtype) {
    constexpr Dtype kDtype = decltype(dtype)::value;
    if (takes_units(call, layout)) {
      launch_units<kDtype, kNorm>(call, layout);
    } else {
      sm90::launch_rotate_pairs_back(call, kNorm);
    }
  };
  switch (call.heads.dtype) {
    case Dtype::bf16: with(Constant<Dtype::bf16>()); break;
    case Dtype::f16: with(Constant<Dtype::f16>()); break;
    default: with(Constant<Dtype::f32>()); break;
  }
}

}  // namespace

void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem, int multiprocessors,
                               const RmsNormRopeBackwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  RotateBackCall call;
  call.heads = rotated_heads(problem);
  call.rotation = args.rotation;
  call.one_plus_weight = problem.one_plus_weight;
  call.stream = context.stream;
  BackwardLayout layout = rms_norm_rope_backward_layout(problem, multiprocessors);
  WorkspaceCarver workspace(context.workspace);
  std::vector<cuda::PartialSums> sums;
  int index = 0;
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t columns = weight_length(problem, side.heads);
    const BackwardHeads heads = layout.sides[index++];
    if (columns == 0) continue;
    layout.sides[call.sides.size()] = heads;  // in the order of the call, if q is left out
    const std::int64_t blocks = heads.blocks();
    auto* partials = static_cast<float*>(
        workspace.take(static_cast<std::size_t>(blocks * columns) * sizeof(float)));
    call.sides.push_back({side, blocks, partials});
    sums.push_back({partials, blocks, columns, side.dg.data, problem.dg_dtype});
  }
  if (call.heads.tokens() > 0) {
    if (problem.norm == NormScope::row) {
      rotate_back<HeadNorm::row>(call, layout);
    } else {
      rotate_back<HeadNorm::head>(call, layout);
    }
  }
  cuda::add_partial_sums(sums, context.stream);
}

}  // namespace octet
