#include "check/ops/gated_activation_reference.hpp"

#include <cmath>
#include <numbers>

namespace octet {
namespace {

std::vector<double> read_row(const DecodedRows& rows, std::int64_t row, std::int64_t cols) {
  std::vector<double> values(static_cast<std::size_t>(cols));
  rows.read(row, values);
  return values;
}

}  // namespace

ReferenceActivation reference_activation(GateActivation activation, double g) {
  using std::numbers::pi;
  switch (activation) {
    case GateActivation::silu: {
      const double below = 1 / (1 + std::exp(-g));
      const double above = 1 / (1 + std::exp(g));
      return {g / (1 + std::exp(-g)), below + g * below * above};
    }
    case GateActivation::gelu_tanh: {
      const double inner = std::sqrt(2 / pi) * (g + 0.044715 * std::pow(g, 3));
      const double inner_slope = std::sqrt(2 / pi) * (1 + 3 * 0.044715 * g * g);
      const double sech = 1 / std::cosh(inner);
      return {0.5 * g * (1 + std::tanh(inner)),
              0.5 * (1 + std::tanh(inner)) + 0.5 * g * sech * sech * inner_slope};
    }
    case GateActivation::gelu_erf: {
      const double below = 0.5 * (1 + std::erf(g / std::sqrt(2.0)));
      return {g * below, below + g * std::exp(-0.5 * g * g) / std::sqrt(2 * pi)};
    }
    case GateActivation::relu_squared: break;
  }
  if (g <= 0) return {};
  return {g * g, 2 * g};
}

GatedActivationReference::GatedActivationReference(GateActivation activation, const TensorView& dy,
                                                   const TensorView& gate, const TensorView& up,
                                                   const TensorView& row_weight,
                                                   const std::vector<std::int64_t>& rows)
    : activation_(activation),
      cols_(gate.cols()),
      dy_(dy, rows),
      gate_(gate, rows),
      up_(up, rows),
      row_weight_(row_weight.data == nullptr ? std::vector<double>() : decoded(row_weight)) {}

double GatedActivationReference::weight(std::int64_t row) const {
  return row_weight_.empty() ? 1 : row_weight_[static_cast<std::size_t>(row)];
}

void GatedActivationReference::y_row(std::int64_t row, std::span<double> y) const {
  const std::vector<double> gate = read_row(gate_, row, cols_);
  up_.read(row, y);
  for (std::size_t c = 0; c < y.size(); ++c) {
    y[c] *= reference_activation(activation_, gate[c]).value * weight(row);
  }
}

void GatedActivationReference::dgate_row(std::int64_t row, std::span<double> dgate) const {
  const std::vector<double> gate = read_row(gate_, row, cols_);
  const std::vector<double> up = read_row(up_, row, cols_);
  dy_.read(row, dgate);
  for (std::size_t c = 0; c < dgate.size(); ++c) {
    dgate[c] *= weight(row) * up[c] * reference_activation(activation_, gate[c]).slope;
  }
}

void GatedActivationReference::dup_row(std::int64_t row, std::span<double> dup) const {
  const std::vector<double> gate = read_row(gate_, row, cols_);
  dy_.read(row, dup);
  for (std::size_t c = 0; c < dup.size(); ++c) {
    dup[c] *= weight(row) * reference_activation(activation_, gate[c]).value;
  }
}

double GatedActivationReference::d_row_weight(std::int64_t row) const {
  const std::vector<double> dy = read_row(dy_, row, cols_);
  const std::vector<double> gate = read_row(gate_, row, cols_);
  const std::vector<double> up = read_row(up_, row, cols_);
  double sum = 0;
  for (std::size_t c = 0; c < dy.size(); ++c) {
    sum += dy[c] * reference_activation(activation_, gate[c]).value * up[c];
  }
  return sum;
}

}  // namespace octet
