// Launches the Hopper kernels of moe_route.
#include "ops/moe_route/cuda_sm90_backward.cuh"
#include "ops/moe_route/cuda_sm90_forward.cuh"

#include "core/checks.hpp"
#include "device/cuda/launch.hpp"

namespace octet {
namespace {

// `kernels`: with 2, 8 and 32 experts per lane.
template <class Params>
void launch_kernel(const MoeRouteProblem& problem, void (*const (&kernels)[3])(Params),
                   Params params, void* stream) {
  if (problem.tokens == 0) return;
  const auto kernel = kernels[problem.experts <= 64 ? 0 : problem.experts <= 256 ? 1 : 2];
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_warps",
                static_cast<unsigned>(ceil_div(problem.tokens, sm90::kRouteWarps)),
                32 * sm90::kRouteWarps, 0, static_cast<cudaStream_t>(stream)},
               arguments);
}

}  // namespace

void launch_sm90_moe_route(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                           const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::RouteForwardParams params{};
  params.logits = args.logits.data;
  params.logits_pitch = args.logits.strides[0];
  params.dtype = problem.dtype;
  params.bias = static_cast<const float*>(args.bias.data);
  params.indices = static_cast<std::int32_t*>(args.indices.data);
  params.indices_pitch = args.indices.strides[0];
  params.weights = static_cast<float*>(args.weights.data);
  params.weights_pitch = args.weights.strides[0];
  params.scores = static_cast<float*>(args.scores.data);
  params.scores_pitch = args.scores.data == nullptr ? 0 : args.scores.strides[0];
  params.tokens = problem.tokens;
  params.experts = static_cast<int>(problem.experts);
  params.top_k = static_cast<int>(problem.top_k);
  params.expert_groups = static_cast<int>(problem.expert_groups);
  params.top_groups = static_cast<int>(problem.top_groups);
  params.group_length = Divisor(static_cast<int>(problem.experts / problem.expert_groups));
  params.softmax = problem.score == RouteScore::softmax;
  params.best_two = problem.group_score == ExpertGroupScore::best_two;
  params.normalize = problem.normalize;
  params.scale = problem.scale;
  launch_kernel(problem,
                {sm90::route_forward_kernel<2>, sm90::route_forward_kernel<8>,
                 sm90::route_forward_kernel<32>},
                params, context.stream);
}

void launch_sm90_moe_route(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                           const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::RouteBackwardParams params{};
  params.scores = static_cast<const float*>(args.scores.data);
  params.scores_pitch = args.scores.strides[0];
  params.indices = static_cast<const std::int32_t*>(args.indices.data);
  params.indices_pitch = args.indices.strides[0];
  params.dweights = static_cast<const float*>(args.dweights.data);
  params.dweights_pitch = args.dweights.strides[0];
  params.dscores = static_cast<const float*>(args.dscores.data);
  params.dscores_pitch = args.dscores.data == nullptr ? 0 : args.dscores.strides[0];
  params.dlogits = args.dlogits.data;
  params.dlogits_pitch = args.dlogits.strides[0];
  params.dtype = problem.dtype;
  params.tokens = problem.tokens;
  params.experts = static_cast<int>(problem.experts);
  params.top_k = static_cast<int>(problem.top_k);
  params.softmax = problem.score == RouteScore::softmax;
  params.normalize = problem.normalize;
  params.scale = problem.scale;
  launch_kernel(problem,
                {sm90::route_backward_kernel<2>, sm90::route_backward_kernel<8>,
                 sm90::route_backward_kernel<32>},
                params, context.stream);
}

}  // namespace octet
