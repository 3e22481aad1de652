// Instantiates the Hopper product for the configurations over groups of one kind.
#pragma once

#include "ops/gemm/sm90/kernel.cuh"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <iterator>
#include <utility>

namespace octet {

template <Sm90GroupedGemmConfig kConfig>
Sm90GroupedGemmKernel grouped_kernel() {
  using C = sm90::GroupedConstant<kConfig>;
  const void* function = nullptr;
  if constexpr (kConfig.gemm.cluster > 1) {
    function = reinterpret_cast<const void*>(&sm90::gemm_cluster_kernel<C>);
  } else {
    function = reinterpret_cast<const void*>(&sm90::gemm_kernel<C>);
  }
  return {function, shared_bytes(kConfig)};
}

// A null kernel where none of this kind has the configuration, or one that has several does.
template <Groups kGroups, std::size_t... kIndex>
Sm90GroupedGemmKernel find_grouped_kernel(const Sm90GroupedGemmConfig& config,
                                          std::index_sequence<kIndex...>) {
  Sm90GroupedGemmKernel found;
  const auto look = [&](auto index) {
    constexpr Sm90GroupedGemmConfig kConfig = kSm90GroupedGemmConfigs[decltype(index)::value];
    if constexpr (kConfig.groups == kGroups && kConfig.width == Width::fixed &&
                  !is_row_width(kConfig)) {
      if (kConfig == config) found = grouped_kernel<kConfig>();
    }
  };
  (look(std::integral_constant<std::size_t, kIndex>()), ...);
  return found;
}

template <Groups kGroups>
Sm90GroupedGemmKernel find_grouped_kernel(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kGroups>(
      config, std::make_index_sequence<std::size(kSm90GroupedGemmConfigs)>());
}

}  // namespace octet
