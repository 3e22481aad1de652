// Launches the Hopper kernels of gated_activation over groups. The grid provides for every token
// block that the groups can need: the host does not know how many there are.
#include "ops/gated_activation/experts/cuda_sm90_groups.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/quantize/experts/cuda_sm90_experts.cuh"

namespace octet {
namespace {

using sm90::GatedGroupsParams;

template <class Args>
GatedGroupsParams params_of(const GatedActivationProblem& problem, const Args& args,
                            std::int64_t copied_cols) {
  GatedGroupsParams params{};
  params.tile.gate = cuda::matrix_of(args.gate);
  params.tile.up = cuda::matrix_of(args.up);
  params.tile.row_weight =
      problem.row_weight ? static_cast<const float*>(args.row_weight.data) : nullptr;
  params.tile.cols = problem.cols;
  params.tile.activation = problem.activation;
  params.tile.copies = sm90::group_copies_of(*problem.fp8, args.fp8, problem.rows, copied_cols);
  params.groups = sm90::groups_of(*problem.fp8, args.fp8, args.table, problem.groups, problem.rows,
                                  problem.tail);
  return params;
}

// Tiles of 128 rows times those of the columns of gate.
unsigned blocks_of(const GatedActivationProblem& problem, const GatedGroupsParams& params) {
  const std::int64_t tiles =
      max_token_tiles({problem.groups, problem.rows}, params.groups.clear_tail);
  return static_cast<unsigned>(tiles * ceil_div(problem.cols, kBlock));
}

// Adds the parts of the row weight's gradient that the tiles have left in the workspace.
void launch_sum(const GatedActivationProblem& problem, const GatedGroupsParams& params,
                float* d_row_weight, void* stream) {
  sm90::WeightPartsParams sum{params.groups.table,
                              params.weight_parts,
                              d_row_weight,
                              params.groups.groups,
                              params.groups.rows,
                              static_cast<int>(problem.cols / kBlock),
                              problem.tail == GroupTail::zero};
  void* arguments[] = {&sum};
  cuda::launch(
      {reinterpret_cast<const void*>(&sm90::add_weight_parts_kernel), "launch of cuda_sm90_tile",
       static_cast<unsigned>(ceil_div(problem.rows, sm90::kWeightPartsThreads)),
       sm90::kWeightPartsThreads, 0, static_cast<cudaStream_t>(stream)},
      arguments);
}

}  // namespace

void launch_sm90_gated_groups(const GatedActivationProblem& problem,
                              const GatedActivationForwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedGroupsParams params = params_of(problem, args, problem.cols);
  params.tile.aligned = cuda::are_aligned16({args.gate, args.up});
  const auto kernel = sm90::with_16bit_cast(problem.dtype, problem.fp8->format, [](auto cast) {
    return &sm90::gated_forward_groups_kernel<decltype(cast)::kDtype, decltype(cast)::kE5m2>;
  });
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
       blocks_of(problem, params), sm90::kQuantizeThreads,
       sizeof(sm90::GatedForwardStorage<Dtype::bf16>), static_cast<cudaStream_t>(context.stream)},
      arguments);
}

void launch_sm90_gated_groups(const GatedActivationProblem& problem,
                              const GatedActivationBackwardArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedGroupsParams params = params_of(problem, args, 2 * problem.cols);
  params.tile.dy = cuda::matrix_of(args.dy);
  params.tile.aligned = cuda::are_aligned16({args.gate, args.up, args.dy});
  if (problem.row_weight) params.weight_parts = static_cast<float*>(context.workspace.data);
  const auto kernel = sm90::with_16bit_cast(problem.dtype, problem.fp8->format, [](auto cast) {
    return &sm90::gated_backward_groups_kernel<decltype(cast)::kDtype, decltype(cast)::kE5m2>;
  });
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
       blocks_of(problem, params), sm90::kQuantizeThreads,
       sizeof(sm90::GatedBackwardStorage<Dtype::bf16>), static_cast<cudaStream_t>(context.stream)},
      arguments);
  if (problem.row_weight) {
    launch_sum(problem, params, static_cast<float*>(args.d_row_weight.data), context.stream);
  }
}

}  // namespace octet
