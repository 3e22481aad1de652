// The checked problem of moe_maps, and the words of its status.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/moe_maps.hpp>

#include <span>

namespace octet {

using MoeMapsImplementation = Implementation<MoeMapsProblem, MoeMapsArgs>;

extern const MoeMapsImplementation kMoeMapsCudaSm90CountingSort;
extern const MoeMapsImplementation kMoeMapsCpuReference;

// In the order they are tried.
std::span<const MoeMapsImplementation> moe_maps_implementations();

void check(const MoeMapsProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const MoeMapsProblem& problem, const MoeMapsArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace);

// The launcher of the Hopper kernels. Arguments are checked already. Throws Error if CUDA reports
// one.
void launch_sm90_moe_maps(const MoeMapsProblem& problem, const MoeMapsArgs& args,
                          const RunContext& context);

// tokens, top_k and rows of every operator that has slots.
void check_slots(std::string_view op, std::int64_t tokens, std::int64_t top_k, std::int64_t rows);

inline constexpr std::int32_t kMoeMapsMagic = 0x6F63746D;

struct MoeMapsStatus {
  std::int32_t magic = kMoeMapsMagic;
  std::int32_t top_k = 0;
  std::int64_t experts = 0;
  std::int32_t rows = 0;
  std::int32_t dropped = 0;
  std::int32_t cut = 0;
  std::int32_t bad_indices = 0;
  std::int64_t bad_index = 0;  // the first of them
  std::int32_t bad_slot = 0;   // and its slot
  std::int32_t reserved[5] = {};
};
static_assert(sizeof(MoeMapsStatus) == kMoeMapsStatusWords * sizeof(std::int32_t));

}  // namespace octet
