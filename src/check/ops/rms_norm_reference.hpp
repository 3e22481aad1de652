// rms_norm, and rms_norm_rope of q or k, in f64: the judged rows, and the sums over all rows.
#pragma once

#include "check/reference/on_host.hpp"
#include "check/reference/rotation_reference.hpp"

#include <octet/octet.hpp>

#include <span>
#include <vector>

namespace octet {

struct RmsNormInputs {
  TensorView x;
  TensorView residual;  // no data: none
  TensorView g;
  TensorView dy;    // no data: forward only
  TensorView dsum;  // no data: none
};

class RmsNormReference {
 public:
  // `rows`: those whose y, sum and dx will be read.
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

// Over all rows: rstd of each, and dg if there is a dy.
struct RmsNormSums {
  std::vector<double> rstd;  // [rows]
  std::vector<double> dg;    // [cols]

  RmsNormSums(const RmsNormProblem& problem, const RmsNormInputs& inputs, int threads);
};

struct NormRopeInputs {
  TensorView x;     // [tokens, heads * head_dim]
  TensorView g;     // a vector
  TensorView dout;  // as x; no data: forward only
};

class NormRopeReference {
 public:
  // `rotation` must outlive this object; `tokens`: those whose out and dx will be read.
  NormRopeReference(const RmsNormRopeProblem& problem, const NormRopeInputs& inputs,
                    const RotationReference& rotation, const std::vector<std::int64_t>& tokens);

  void out_row(std::int64_t token, std::span<double> out) const;
  void dx_row(std::int64_t token, std::span<double> dx) const;

 private:
  void read_dn(std::int64_t token, std::span<double> dn) const;  // the gradient before the rotation

  const RotationReference& rotation_;
  double eps_;
  std::vector<double> w_;  // as many as are normalised together
  DecodedRows x_;
  DecodedRows dout_;

  friend struct NormRopeSums;
};

// Over all tokens: rstd of each norm, and dg if there is a dout.
struct NormRopeSums {
  std::vector<double> rstd;
  std::vector<double> dg;

  NormRopeSums(const RmsNormRopeProblem& problem, const NormRopeInputs& inputs,
               const RotationReference& rotation, int threads);
};

}  // namespace octet
