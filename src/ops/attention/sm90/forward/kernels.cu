// Instantiates attention's Hopper forward for every configuration of forward_config.hpp.
#include "core/message.hpp"
#include "ops/attention/sm90/forward/forward.hpp"
#include "ops/attention/sm90/forward/kernel.cuh"

#include <array>
#include <iterator>

namespace octet {
namespace {

template <Sm90AttentionForwardConfig kConfig>
Sm90AttentionForwardKernel kernel() {
  return {kConfig,
          reinterpret_cast<const void*>(&attention::attention_forward_kernel<Constant<kConfig>>),
          attention::shared_bytes(kConfig)};
}

template <std::size_t... kIndex>
auto all_kernels(std::index_sequence<kIndex...>) {
  return std::array{kernel<kSm90AttentionForwardConfigs[kIndex]>()...};
}

}  // namespace

const Sm90AttentionForwardKernel& sm90_attention_forward_kernel(
    const Sm90AttentionForwardConfig& config) {
  static const auto kernels =
      all_kernels(std::make_index_sequence<std::size(kSm90AttentionForwardConfigs)>());
  for (const Sm90AttentionForwardKernel& entry : kernels) {
    if (entry.config == config) return entry;
  }
  fail(ErrorCode::internal, "attention: configuration ", name(config), " was not compiled");
}

}  // namespace octet
