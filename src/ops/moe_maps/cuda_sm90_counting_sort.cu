// Launches the Hopper kernels of moe_maps.
#include "ops/moe_maps/cuda_sm90_place.cuh"

#include "device/cuda/launch.hpp"

#include <algorithm>

namespace octet {

void launch_sm90_moe_maps(const MoeMapsProblem& problem, const MoeMapsArgs& args,
                          const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  sm90::MapsParams params{};
  params.top_k = Divisor(static_cast<int>(problem.top_k));
  params.slots = SlotBlocks(problem.tokens * problem.top_k);
  params.indices = sm90::integers_of(args.indices);
  params.indices_pitch = args.indices.strides[0];
  params.row_of = static_cast<std::int32_t*>(args.row_of.data);
  params.row_of_pitch = args.row_of.strides[0];
  params.source = static_cast<std::int32_t*>(args.source.data);
  params.sizes = static_cast<std::int32_t*>(args.sizes.data);
  params.table = static_cast<std::int32_t*>(args.table.data);
  params.status = static_cast<MoeMapsStatus*>(args.status.data);
  auto* workspace = static_cast<char*>(context.workspace.data);
  params.counts = reinterpret_cast<std::int32_t*>(workspace);
  params.bad =
      reinterpret_cast<BadSlots*>(workspace + bad_slots_offset(params.slots, problem.groups));
  params.experts = problem.experts;
  params.first_expert = problem.first_expert;
  params.groups = static_cast<std::int32_t>(problem.groups);
  params.rows = static_cast<std::int32_t>(problem.rows);
  params.capacity = static_cast<std::uint32_t>(
      problem.capacity > 0 ? std::min(problem.capacity, kMaxGroupedRows) : kMaxGroupedRows);

  void* arguments[] = {&params};
  const auto launch = [&](void (*kernel)(sm90::MapsParams), std::int32_t blocks,
                          std::size_t shared_bytes) {
    cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_counting_sort",
                  static_cast<unsigned>(blocks), sm90::kScanThreads, shared_bytes,
                  static_cast<cudaStream_t>(context.stream)},
                 arguments);
  };
  launch(sm90::count_slots_kernel, params.slots.blocks, 0);
  launch(sm90::place_slots_kernel, params.slots.blocks + 1,
         static_cast<std::size_t>(problem.groups) * sm90::kScanWarps * sizeof(std::uint32_t));
}

}  // namespace octet
