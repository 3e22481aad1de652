// gated_activation in f64, with exp, tanh and erf of the C++ library, for the judged rows.
#pragma once

#include "check/reference/on_host.hpp"

#include <octet/octet.hpp>

#include <span>
#include <vector>

namespace octet {

struct ReferenceActivation {
  double value = 0;
  double slope = 0;
};
ReferenceActivation reference_activation(GateActivation activation, double gate);

class GatedActivationReference {
 public:
  // `rows`: those that will be read. A row_weight without data is 1.
  GatedActivationReference(GateActivation activation, const TensorView& dy, const TensorView& gate,
                           const TensorView& up, const TensorView& row_weight,
                           const std::vector<std::int64_t>& rows);

  void y_row(std::int64_t row, std::span<double> y) const;
  void dgate_row(std::int64_t row, std::span<double> dgate) const;
  void dup_row(std::int64_t row, std::span<double> dup) const;
  double d_row_weight(std::int64_t row) const;

 private:
  double weight(std::int64_t row) const;

  GateActivation activation_;
  std::int64_t cols_;
  DecodedRows dy_;
  DecodedRows gate_;
  DecodedRows up_;
  std::vector<double> row_weight_;  // of all rows; empty if there is none
};

}  // namespace octet
