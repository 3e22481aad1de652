// group_table on Hopper: one launch of one block.
#include "ops/group_table/cuda_sm90_block.cuh"

#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "ops/group_table/problem.hpp"

namespace octet {
namespace sm90 {

static __global__ __launch_bounds__(kScanThreads) void group_table_kernel(
    const __grid_constant__ GroupTableParams params) {
  __shared__ GroupTableStorage shared;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const bool offsets = params.given == GroupSizes::offsets;
  const auto group = static_cast<int>(threadIdx.x);
  const std::int64_t number = group < params.groups ? params.numbers[group + (offsets ? 1 : 0)] : 0;
  write_group_table(params, number, offsets ? params.numbers[0] : 0, shared);
}

}  // namespace sm90

void launch_sm90_group_table(const GroupTableProblem& problem, const GroupTableArgs& args,
                             const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::GroupTableParams params{};
  params.numbers = sm90::integers_of(args.sizes);
  params.table = static_cast<std::int32_t*>(args.table.data);
  params.groups = static_cast<std::int32_t>(problem.groups);
  params.rows = static_cast<std::int32_t>(problem.rows);
  params.given = problem.given;
  void* arguments[] = {&params};
  cuda::launch(
      {reinterpret_cast<const void*>(sm90::group_table_kernel), "launch of cuda_sm90_block", 1,
       sm90::kScanThreads, 0, static_cast<cudaStream_t>(context.stream)},
      arguments);
}

}  // namespace octet
