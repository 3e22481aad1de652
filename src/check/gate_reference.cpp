#include "check/gate_reference.hpp"

#include <cmath>
#include <numbers>

namespace octet {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The argument of gelu_tanh's tanh, and its derivative.
const double kTanhFactor = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

}  // namespace

double activate(GateActivation activation, double gate) {
  switch (activation) {
    case GateActivation::silu: return gate * sigmoid(gate);
    case GateActivation::gelu_tanh:
      return gate / 2 * (1 + std::tanh(kTanhFactor * (gate + kCubic * gate * gate * gate)));
    case GateActivation::gelu_erf: return gate / 2 * std::erfc(-gate / std::numbers::sqrt2);
    case GateActivation::relu_squared: break;
  }
  return gate > 0 ? gate * gate : gate * 0;  // a NaN stays one
}

double slope(GateActivation activation, double gate) {
  switch (activation) {
    case GateActivation::silu: {
      const double s = sigmoid(gate);
      return s + gate * s * (1 - s);
    }
    case GateActivation::gelu_tanh: {
      const double t = std::tanh(kTanhFactor * (gate + kCubic * gate * gate * gate));
      return (1 + t) / 2 + gate / 2 * (1 - t * t) * kTanhFactor * (1 + 3 * kCubic * gate * gate);
    }
    case GateActivation::gelu_erf:
      return std::erfc(-gate / std::numbers::sqrt2) / 2 +
             gate * std::exp(-gate * gate / 2) / std::sqrt(2 * std::numbers::pi);
    case GateActivation::relu_squared: break;
  }
  return gate > 0 ? 2 * gate : gate * 0;
}

}  // namespace octet
