// Instantiates the Hopper product for every configuration of config.hpp.
#include "core/message.hpp"
#include "ops/gemm/sm90/kernel.cuh"
#include "ops/gemm/sm90/wgmma.hpp"

#include <array>
#include <iterator>

namespace octet {
namespace {

template <Sm90GemmConfig kConfig>
Sm90GemmKernel kernel() {
  using C = Constant<kConfig>;
  const void* function = nullptr;
  if constexpr (kConfig.cluster > 1) {
    function = reinterpret_cast<const void*>(&sm90::gemm_cluster_kernel<C>);
  } else {
    function = reinterpret_cast<const void*>(&sm90::gemm_kernel<C>);
  }
  return {kConfig, function, shared_bytes(kConfig)};
}

template <std::size_t... kIndex>
auto all_kernels(std::index_sequence<kIndex...>) {
  return std::array{kernel<kSm90GemmConfigs[kIndex]>()...};
}

}  // namespace

const Sm90GemmKernel& sm90_gemm_kernel(const Sm90GemmConfig& config) {
  static const auto kernels = all_kernels(std::make_index_sequence<std::size(kSm90GemmConfigs)>());
  for (const Sm90GemmKernel& entry : kernels) {
    if (entry.config == config) return entry;
  }
  fail(ErrorCode::internal, "gemm: configuration ", name(config), " was not compiled");
}

}  // namespace octet
