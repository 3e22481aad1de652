// Random choices of experts, and the maps that follow from them, from a stable sort on the host:
// the data of the glue of a mixture, and the reference of moe_maps.
#pragma once

#include "check/gates.hpp"

#include <octet/buffer.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace octet {

// Which experts are here, and how many rows there are for them; as in MoeMapsProblem.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t groups = 0;
  std::int64_t rows = 0;
  std::int64_t capacity = 0;
};

struct ExpertMaps {
  std::vector<std::int32_t> row_of;  // of every slot
  std::vector<std::int32_t> source;  // of every row
  std::vector<std::int32_t> sizes;   // of every expert here
  std::int64_t dropped = 0;
  std::int64_t cut = 0;
};

// Whether about one slot in sixteen has no expert, -1.
enum class AbsentSlots { none, some };

// An expert for every slot. With Distribution::skewed low experts are chosen more often.
std::vector<std::int32_t> random_experts(std::int64_t slots, std::int64_t experts,
                                         AbsentSlots absent, const DataOptions& options);
ExpertMaps sorted_by_expert(std::span<const std::int32_t> experts, const ExpertRange& range);

// Maps for any number of rows: random choices among `kDrawnExperts` experts, all of them here.
inline constexpr std::int64_t kDrawnExperts = 64;
ExpertMaps random_maps(std::int64_t tokens, std::int64_t top_k, std::int64_t rows,
                       AbsentSlots absent, const DataOptions& options);

// Integers as a tensor of i32 or i64 on a device.
Tensor integer_tensor(std::span<const std::int32_t> values, Dtype dtype,
                      std::initializer_list<std::int64_t> shape, Device device);

}  // namespace octet
