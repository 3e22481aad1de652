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

// Units that a thread holds at a time, as registers allow.
template <Dtype kDtype>
constexpr int kBackUnits = kDtype == Dtype::f32 ? 1 : 2;

// log2 of the threads of a block, which takes one token at a time.
template <Dtype kDtype, HeadNorm kNorm>
int block_log2(const RotateBackCall& call) {
  if (kNorm == HeadNorm::head) return 7;
  const sm90::HeadShape shape = sm90::shape_of(call.heads);
  int result = 5;
  for (const RotatedBackSide& side : call.sides) {
    result = std::max(result,
                      cuda::log2_up(ceil_div(side.heads << shape.units_log2, kBackUnits<kDtype>)));
  }
  return result;
}

template <Dtype kDtype, HeadNorm kNorm>
bool takes_units(const RotateBackCall& call) {
  return sm90::has_units(call.heads) &&
         (1 << block_log2<kDtype, kNorm>(call)) <= sm90::kHeadGradientThreads;
}

template <Dtype kDtype, HeadNorm kNorm>
void launch_units(const RotateBackCall& call) {
  HeadGradientParams params{};
  params.angles = sm90::angles_of(call.heads, call.rotation, true);
  params.shape = sm90::shape_of(call.heads);
  params.tokens = static_cast<unsigned>(call.heads.tokens());
  params.threads_log2 = block_log2<kDtype, kNorm>(call);
  params.one_plus_weight = call.one_plus_weight;
  params.aligned = true;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedBackSide& side = call.sides[i];
    sm90::HeadGradients& tensor = params.tensors[i];
    tensor.dout = sm90::heads_of(side.dout);
    tensor.x = sm90::heads_of(side.x);
    tensor.dx = sm90::heads_of(side.dx);
    params.aligned = params.aligned && sm90::has_aligned_heads(side.dout) &&
                     sm90::has_aligned_heads(side.x) && sm90::has_aligned_heads(side.dx);
    tensor.g = {side.g.data, side.g.dtype, cuda::is_aligned16(side.g)};
    tensor.rstd = static_cast<const float*>(side.rstd.data);
    tensor.partials = side.partials;
    tensor.heads = static_cast<int>(side.heads);
    const std::int64_t normed = kNorm == HeadNorm::row ? side.heads : 1;
    tensor.one_over_count = 1.0f / static_cast<float>(normed * call.heads.head_dim);
    tensor.blocks = static_cast<unsigned>(call.blocks);
  }
  constexpr int kUnits = kBackUnits<kDtype>;
  const auto kernel =
      call.heads.rotation.style == RopeStyle::rotate_half
          ? sm90::rotate_heads_back_kernel<kDtype, RopeStyle::rotate_half, kNorm, kUnits>
          : sm90::rotate_heads_back_kernel<kDtype, RopeStyle::interleaved, kNorm, kUnits>;
  const unsigned threads = 1u << params.threads_log2;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_heads",
                static_cast<unsigned>(call.blocks * static_cast<std::int64_t>(call.sides.size())),
                threads, kNorm == HeadNorm::head ? threads * sizeof(sm90::PairsOf4) : 0,
                static_cast<cudaStream_t>(call.stream)},
               arguments);
}

template <HeadNorm kNorm>
void rotate_back(const RotateBackCall& call) {
  const auto with = [&](auto dtype) {
    constexpr Dtype kDtype = decltype(dtype)::value;
    if (takes_units<kDtype, kNorm>(call)) {
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

void launch_sm90_rms_norm_rope(const RmsNormRopeProblem& problem, std::int64_t blocks,
                               const RmsNormRopeBackwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  RotateBackCall call;
  call.heads = rotated_heads(problem);
  call.rotation = args.rotation;
  call.one_plus_weight = problem.one_plus_weight;
  call.blocks = blocks;
  call.stream = context.stream;
  WorkspaceCarver workspace(context.workspace);
  std::vector<cuda::PartialSums> sums;
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t columns = weight_length(problem, side.heads);
    if (columns == 0) continue;
    auto* partials = static_cast<float*>(
        workspace.take(static_cast<std::size_t>(call.blocks * columns) * sizeof(float)));
    call.sides.push_back({side, partials});
    sums.push_back({partials, call.blocks, columns, side.dg.data, problem.dg_dtype});
  }
  if (call.blocks > 0) {
    if (problem.norm == NormScope::row) {
      rotate_back<HeadNorm::row>(call);
    } else {
      rotate_back<HeadNorm::head>(call);
    }
  }
  for (const cuda::PartialSums& sum : sums) cuda::add_partial_sums(sum, context.stream);
}

}  // namespace octet
