// The gates' activations and their slopes in f64, from their definitions.
#pragma once

#include <octet/ops/gated_activation.hpp>

namespace octet {

double activate(GateActivation activation, double gate);
double slope(GateActivation activation, double gate);

}  // namespace octet
