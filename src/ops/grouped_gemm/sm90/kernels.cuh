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

// A null kernel where none of these has the configuration, or one that has several does.
template <const auto& kConfigs, bool (*kIsOfThese)(const Sm90GroupedGemmConfig&),
          std::size_t... kIndex>
Sm90GroupedGemmKernel find_grouped_kernel(const Sm90GroupedGemmConfig& config,
                                          std::index_sequence<kIndex...>) {
  Sm90GroupedGemmKernel found;
  const auto look = [&](auto index) {
    constexpr Sm90GroupedGemmConfig kConfig = kConfigs[decltype(index)::value];
    if constexpr (kIsOfThese(kConfig) && kConfig.width == Width::fixed && !is_row_width(kConfig)) {
      if (kConfig == config) found = grouped_kernel<kConfig>();
    }
  };
  (look(std::integral_constant<std::size_t, kIndex>()), ...);
  return found;
}

constexpr bool is_over_rows(const Sm90GroupedGemmConfig& config) {
  return config.groups == Groups::rows;
}
constexpr bool is_over_contraction(const Sm90GroupedGemmConfig& config) {
  return config.groups == Groups::contraction;
}
constexpr bool is_any(const Sm90GroupedGemmConfig&) { return true; }

template <const auto& kConfigs, bool (*kIsOfThese)(const Sm90GroupedGemmConfig&)>
Sm90GroupedGemmKernel find_grouped_kernel(const Sm90GroupedGemmConfig& config) {
  return find_grouped_kernel<kConfigs, kIsOfThese>(config,
                                                   std::make_index_sequence<std::size(kConfigs)>());
}

}  // namespace octet
