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

// Bytes of a block's ring: enough in flight for two blocks of a multiprocessor, and the rest of
// its memory is the L1 cache for weights, cos and sin.
constexpr std::size_t kRingBytes = std::size_t{64} << 10;
constexpr std::size_t kMostRingBytes = std::size_t{100} << 10;
// For the sum of dg over threads, at the end.
constexpr std::size_t kSumBytes = sm90::kBackThreads * sizeof(sm90::PairsOf4);
constexpr int kMostUnits = 2;  // of a thread, with the norm over a row

// Units of a thread in a token, a power of two.
template <HeadNorm kNorm>
std::int64_t units_of_a_thread(const RotateBackCall& call) {
  if (kNorm == HeadNorm::head) return 1;
  std::int64_t most = 1;
  for (const RotatedBackSide& side : call.sides) {
    const std::int64_t slots = side.heads << sm90::shape_of(call.heads).units_log2;
    most = std::max(most, ceil_div(slots, std::int64_t{sm90::kBackThreads}));
  }
  return std::int64_t{1} << cuda::log2_up(most);
}

// Depends only on the problem, so that the order of sums does not depend on the addresses of the
// tensors.
template <HeadNorm kNorm>
bool takes_units(const RotateBackCall& call) {
  return sm90::has_units(call.heads) && units_of_a_thread<kNorm>(call) <= kMostUnits;
}

bool is_packed(const RotatedBackSide& side) {
  return side.dout.strides[2] == side.dout.shape[3] && side.x.strides[2] == side.x.shape[3];
}

template <Dtype kDtype, HeadNorm kNorm>
sm90::HeadGradients gradients_of(const RotateBackCall& call, const RotatedBackSide& side,
                                 const sm90::HeadShape& shape) {
  sm90::HeadGradients tensor{};
  tensor.dout = sm90::heads_of(side.dout);
  tensor.x = sm90::heads_of(side.x);
  tensor.dx = sm90::heads_of(side.dx);
  tensor.g = {side.g.data, side.g.dtype, cuda::is_aligned16(side.g)};
  tensor.rstd = static_cast<const float*>(side.rstd.data);
  tensor.partials = side.partials;
  tensor.heads = static_cast<int>(side.heads);
  const int block_heads = sm90::kBackThreads >> shape.units_log2;
  tensor.chunk_heads = kNorm == HeadNorm::row ? tensor.heads : std::min(tensor.heads, block_heads);
  tensor.chunks = static_cast<int>(ceil_div(tensor.heads, tensor.chunk_heads));
  tensor.slots = tensor.chunk_heads << shape.units_log2;
  // A warp that is to be summed must not have units of two tokens.
  const bool one_token = kNorm == HeadNorm::row && tensor.slots % 32 != 0;
  tensor.group_tokens = one_token ? 1 : std::max(1, sm90::kBackThreads / tensor.slots);
  const std::int64_t normed = kNorm == HeadNorm::row ? side.heads : 1;
  tensor.one_over_count = 1.0f / static_cast<float>(normed * call.heads.head_dim);
  tensor.blocks = static_cast<unsigned>(side.blocks);
  tensor.packed = is_packed(side);
  return tensor;
}

template <Dtype kDtype, HeadNorm kNorm, int kUnits>
void launch_units(const RotateBackCall& call) {
  HeadGradientParams params{};
  params.angles = sm90::angles_of(call.heads, call.rotation, true);
  params.shape = sm90::shape_of(call.heads);
  params.tokens = static_cast<unsigned>(call.heads.tokens());
  params.one_plus_weight = call.one_plus_weight;
  params.aligned = true;
  bool fits = true;
  std::size_t shared_bytes = kSumBytes;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedBackSide& side = call.sides[i];
    sm90::HeadGradients& tensor = params.tensors[i];
    tensor = gradients_of<kDtype, kNorm>(call, side, params.shape);
    params.aligned = params.aligned && sm90::has_aligned_heads(side.dout) &&
                     sm90::has_aligned_heads(side.x) && sm90::has_aligned_heads(side.dx);
    const std::size_t stage_bytes =
        2 * static_cast<std::size_t>(tensor.group_tokens * tensor.chunk_heads *
                                     call.heads.head_dim * size_bytes(kDtype));
    fits = fits && 2 * stage_bytes <= kMostRingBytes;
    tensor.stages = std::clamp(static_cast<int>(kRingBytes / stage_bytes), 2, sm90::kRingMaxStages);
    shared_bytes = std::max(shared_bytes, static_cast<std::size_t>(tensor.stages) * stage_bytes);
  }
  if (!params.aligned || !fits) {
    for (sm90::HeadGradients& tensor : params.tensors) tensor.stages = 0;
    shared_bytes = kSumBytes;
  }
  const auto kernel =
      call.heads.rotation.style == RopeStyle::rotate_half
          ? sm90::rotate_heads_back_kernel<kDtype, RopeStyle::rotate_half, kNorm, kUnits>
          : sm90::rotate_heads_back_kernel<kDtype, RopeStyle::interleaved, kNorm, kUnits>;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_heads",
                params.tensors[0].blocks + params.tensors[1].blocks, sm90::kBackThreads,
                shared_bytes, static_cast<cudaStream_t>(call.stream)},
               arguments);
}

template <Dtype kDtype, HeadNorm kNorm>
void launch_units(const RotateBackCall& call) {
  if constexpr (kNorm == HeadNorm::head) {
    launch_units<kDtype, kNorm, 1>(call);
  } else {
    if (units_of_a_thread<kNorm>(call) == 1) {
      launch_units<kDtype, kNorm, 1>(call);
    } else {
      launch_units<kDtype, kNorm, kMostUnits>(call);
    }
  }
}

template <HeadNorm kNorm>
void rotate_back(const RotateBackCall& call) {
  const auto with = [&](auto dtype) {
    constexpr Dtype kDtype = decltype(dtype)::value;
    if (takes_units<kNorm>(call)) {
      launch_units<kDtype, kNorm>(call);
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
  WorkspaceCarver workspace(context.workspace);
  std::vector<cuda::PartialSums> sums;
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t columns = weight_length(problem, side.heads);
    if (columns == 0) continue;
    const std::int64_t blocks = rms_norm_rope_backward_blocks(problem, side.heads, multiprocessors);
    auto* partials = static_cast<float*>(
        workspace.take(static_cast<std::size_t>(blocks * columns) * sizeof(float)));
    call.sides.push_back({side, blocks, partials});
    sums.push_back({partials, blocks, columns, side.dg.data, problem.dg_dtype});
  }
  if (call.heads.tokens() > 0) {
    if (problem.norm == NormScope::row) {
      rotate_back<HeadNorm::row>(call);
    } else {
      rotate_back<HeadNorm::head>(call);
    }
  }
  cuda::add_partial_sums(sums, context.stream);
}

}  // namespace octet
