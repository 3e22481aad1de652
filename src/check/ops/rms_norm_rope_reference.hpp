// rms_norm_rope of q or of k in f64: of the tokens that are judged, and of what is a sum over all.
#pragma once

#include "check/judge/judge_elements.hpp"
#include "check/reference/rotation_reference.hpp"

#include <span>
#include <vector>

namespace octet {

struct NormRopeInputs {
  TensorView x;     // [tokens, heads * head_dim]
  TensorView g;     // a vector
  TensorView dout;  // as x; no data: forward alone
};

class NormRopeReference {
 public:
  // `rotation` has to live as long; `tokens`: those whose out and dx will be asked for.
  NormRopeReference(const RmsNormRopeProblem& problem, const NormRopeInputs& inputs,
                    const RotationReference& rotation, const std::vector<std::int64_t>& tokens);

  void out_row(std::int64_t token, std::span<double> out) const;
  void dx_row(std::int64_t token, std::span<double> dx) const;

 private:
  void read_dn(std::int64_t token, std::span<double> dn) const;  // the gradient before the rotation

  const RotationReference& rotation_;
  double eps_;
  std::vector<double> w_;  // as many as are normed together
  DecodedRows x_;
  DecodedRows dout_;

  friend struct NormRopeSums;
};

// Over all tokens: rstd of each norm, and dg where there is a dout.
struct NormRopeSums {
  std::vector<double> rstd;
  std::vector<double> dg;

  NormRopeSums(const RmsNormRopeProblem& problem, const NormRopeInputs& inputs,
               const RotationReference& rotation, int threads);
};

}  // namespace octet
