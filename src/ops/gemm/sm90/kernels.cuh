// Instantiates the Hopper product for a list of configurations of config.hpp.
#pragma once

#include "ops/gemm/sm90/kernel.cuh"
#include "ops/gemm/sm90/compiled.hpp"
#include "ops/gemm/sm90/wgmma.hpp"

#include <array>
#include <iterator>

namespace octet {

template <Sm90GemmConfig kConfig>
Sm90GemmKernel compiled_kernel() {
  using C = Constant<kConfig>;
  const void* function = nullptr;
  if constexpr (kConfig.cluster > 1) {
    function = reinterpret_cast<const void*>(&sm90::gemm_cluster_kernel<C>);
  } else {
    function = reinterpret_cast<const void*>(&sm90::gemm_kernel<C>);
  }
  return {kConfig, function, shared_bytes(kConfig)};
}

// One kernel of each configuration, in their order.
template <const auto& kConfigs>
std::span<const Sm90GemmKernel> compiled_kernels() {
  static const auto kernels = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array{compiled_kernel<kConfigs[kIndex]>()...};
  }
  (std::make_index_sequence<std::size(kConfigs)>());
  return kernels;
}

}  // namespace octet
