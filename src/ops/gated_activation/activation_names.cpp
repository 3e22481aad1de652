#include <octet/ops/gated_activation.hpp>

#include <array>
#include <utility>

namespace octet {
namespace {

constexpr std::array<std::pair<GateActivation, std::string_view>, 4> kNames{{
    {GateActivation::silu, "silu"},
    {GateActivation::gelu_tanh, "gelu_tanh"},
    {GateActivation::gelu_erf, "gelu_erf"},
    {GateActivation::relu_squared, "relu_squared"},
}};

}  // namespace

std::string_view name(GateActivation activation) {
  for (const auto& [value, spelling] : kNames) {
    if (value == activation) return spelling;
  }
  return "unknown activation";
}

std::optional<GateActivation> parse_gate_activation(std::string_view text) {
  for (const auto& [value, spelling] : kNames) {
    if (spelling == text) return value;
  }
  return std::nullopt;
}

}  // namespace octet
