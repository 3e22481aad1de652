// Which problems the Hopper kernels of moe_maps take. Compiled with and without CUDA.
#include "ops/moe_maps/problem.hpp"
#include "ops/moe_maps/slot_blocks.hpp"

namespace octet {

constinit const MoeMapsImplementation kMoeMapsCudaSm90CountingSort{
    "cuda_sm90_counting_sort",
    [](const MoeMapsProblem& problem, const Machine& machine) {
      return refuse_off_hopper(problem.device, machine);
    },
    [](const MoeMapsProblem& problem, const Machine&) {
      const SlotBlocks slots(problem.tokens * problem.top_k);
      return planned<MoeMapsArgs>(problem, text(slots.blocks, " blocks"),
                                  maps_workspace_bytes(slots, problem.groups),
                                  launch_sm90_moe_maps);
    }};

}  // namespace octet
