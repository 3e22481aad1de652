// rms_norm in f64: of the rows that are judged, and of what is a sum over all of them.
#pragma once

#include "check/judge/judge_elements.hpp"

#include <span>
#include <vector>

namespace octet {

struct RmsNormInputs {
  TensorView x;
  TensorView residual;  // no data: none
  TensorView g;
  TensorView dy;    // no data: forward alone
  TensorView dsum;  // no data: none
};

class RmsNormReference {
 public:
  // `rows`: those whose y, sum and dx will be asked for.
  RmsNormReference(const RmsNormProblem& problem, const RmsNormInputs& inputs,
                   const std::vector<std::int64_t>& rows);

  void sum_row(std::int64_t row, std::span<double> sum) const { read_h(row, sum); }
  void y_row(std::int64_t row, std::span<double> y) const;
  void dx_row(std::int64_t row, std::span<double> dx) const;

 private:
  void read_h(std::int64_t row, std::span<double> h) const;

  RmsNormProblem problem_;
  std::vector<double> w_;
  DecodedRows x_;
  DecodedRows residual_;
  DecodedRows dy_;
  DecodedRows dsum_;

  friend struct RmsNormSums;
};

// Over all rows: rstd of each, and dg where there is a dy.
struct RmsNormSums {
  std::vector<double> rstd;  // [rows]
  std::vector<double> dg;    // [cols]

  RmsNormSums(const RmsNormProblem& problem, const RmsNormInputs& inputs, int threads);
};

}  // namespace octet
