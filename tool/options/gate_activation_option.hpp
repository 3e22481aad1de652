// --activation: the same for gated-activation and gated-mlp.
#pragma once

#include "tool/options/options.hpp"
#include "tool/cases/shape_cases.hpp"

#include <octet/ops/gated_activation.hpp>

namespace octet::tool {

inline void add_gate_activation(CLI::App& app, std::string& value) {
  add_choice(app, "--activation", value, {"silu", "gelu_tanh", "gelu_erf", "relu_squared"},
             "of the gate; silu, or that of the case");
}

inline GateActivation chosen_activation(const std::string& given, const ShapeCase& shape) {
  const auto of_case = shape.options.find("activation");
  const std::string name = !given.empty()                   ? given
                           : of_case != shape.options.end() ? of_case->second
                                                            : "silu";
  const auto activation = parse_gate_activation(name);
  if (!activation) refuse_usage("{}: there is no activation \"{}\"", shape.name, name);
  return *activation;
}

}  // namespace octet::tool
