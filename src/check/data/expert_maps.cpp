#include "check/data/expert_maps.hpp"

#include <algorithm>
#include <numeric>

namespace octet {
namespace {

constexpr std::uint32_t kExpertStream = 0x45;

}  // namespace

std::vector<std::int32_t> random_experts(std::int64_t slots, std::int64_t experts,
                                         AbsentSlots absent, const DataOptions& options) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(slots));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto below = [&](std::uint64_t draw, std::uint32_t bound) {
      return random_below({options.seed, kExpertStream}, RandomUse::value, 3 * i + draw, bound);
    };
    auto bound = static_cast<std::uint32_t>(experts);
    if (options.distribution == Distribution::skewed) bound = below(1, bound) + 1;
    const bool here = absent == AbsentSlots::none || below(2, 16) != 0;
    result[i] = here ? static_cast<std::int32_t>(below(0, bound)) : -1;
  }
  return result;
}

ExpertMaps sorted_by_expert(std::span<const std::int32_t> experts, const ExpertRange& range) {
  std::vector<std::int32_t> slots(experts.size());
  std::iota(slots.begin(), slots.end(), 0);
  const auto expert_of = [&](std::int32_t slot) { return experts[static_cast<std::size_t>(slot)]; };
  std::erase_if(slots, [&](std::int32_t slot) {
    return expert_of(slot) < range.first || expert_of(slot) >= range.first + range.groups;
  });
  std::stable_sort(slots.begin(), slots.end(),
                   [&](std::int32_t a, std::int32_t b) { return expert_of(a) < expert_of(b); });
  ExpertMaps maps;
  maps.row_of.assign(experts.size(), -1);
  maps.sizes.assign(static_cast<std::size_t>(range.groups), 0);
  std::int64_t in_line = 0;  // slots of this expert so far
  for (std::size_t i = 0; i < slots.size(); ++i) {
    in_line = i > 0 && expert_of(slots[i]) == expert_of(slots[i - 1]) ? in_line + 1 : 1;
    if (range.capacity > 0 && in_line > range.capacity) {
      ++maps.dropped;
    } else if (std::ssize(maps.source) == range.rows) {
      ++maps.cut;
    } else {
      maps.row_of[static_cast<std::size_t>(slots[i])] =
          static_cast<std::int32_t>(maps.source.size());
      ++maps.sizes[static_cast<std::size_t>(expert_of(slots[i]) - range.first)];
      maps.source.push_back(slots[i]);
    }
  }
  maps.source.resize(static_cast<std::size_t>(range.rows), -1);
  return maps;
}

ExpertMaps random_maps(std::int64_t tokens, std::int64_t top_k, std::int64_t rows,
                       AbsentSlots absent, const DataOptions& options) {
  return sorted_by_expert(random_experts(tokens * top_k, kDrawnExperts, absent, options),
                          {.groups = kDrawnExperts, .rows = rows});
}

Tensor integer_tensor(std::span<const std::int32_t> values, Dtype dtype,
                      std::initializer_list<std::int64_t> shape, Device device) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  const void* data = dtype == Dtype::i64 ? static_cast<const void*>(wide.data()) : values.data();
  Tensor tensor(dtype, shape, device);
  copy(make_view(data, dtype, shape), tensor);
  return tensor;
}

}  // namespace octet
