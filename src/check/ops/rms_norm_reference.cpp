#include "check/ops/rms_norm_reference.hpp"

#include "check/reference/decode.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace octet {
namespace {

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

double reciprocal_rms(std::span<const double> x, double eps) {
  return 1 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + eps);
}

// g, or 1 + g.
std::vector<double> weights(const TensorView& g, bool one_plus_weight) {
  std::vector<double> w = decoded(g);
  if (!one_plus_weight) return w;
  for (double& value : w) value += 1;
  return w;
}

// Calls add_row(reference, row, x, d, sums) for every row of an input, and adds up `sums` in
// `total`, in a fixed order that does not depend on the threads. make(rows) copies a batch of rows
// to the host; x and d are scratch of one row each.
template <class Make, class AddRow>
void sum_over_rows(const TensorView& input, int threads, std::vector<double>& total,
                   const Make& make, const AddRow& add_row) {
  constexpr std::int64_t kBatch = std::int64_t{1} << 24;  // elements
  constexpr std::int64_t kParts = 16;
  const std::int64_t rows = input.rows();
  const std::int64_t step = std::max<std::int64_t>(kBatch / input.cols(), 1);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    std::vector<std::int64_t> batch(static_cast<std::size_t>(std::min(step, rows - begin)));
    std::iota(batch.begin(), batch.end(), begin);
    const auto reference = make(batch);
    const auto count = static_cast<std::int64_t>(batch.size());
    std::vector<std::vector<double>> parts(kParts, std::vector<double>(total.size()));
    parallel_for(threads != 0 ? threads : default_threads(), kParts, [&](std::int64_t part) {
      std::vector<double> x(static_cast<std::size_t>(input.cols()));
      std::vector<double> d(x.size());
      std::vector<double>& sums = parts[static_cast<std::size_t>(part)];
      for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
        add_row(reference, begin + i, x, d, sums);
      }
    });
    for (const std::vector<double>& sums : parts) {
      for (std::size_t c = 0; c < total.size(); ++c) total[c] += sums[c];
    }
  }
}

}  // namespace

RmsNormReference::RmsNormReference(const RmsNormProblem& problem, const RmsNormInputs& inputs,
                                   const std::vector<std::int64_t>& rows)
    : problem_(problem),
      w_(weights(inputs.g, problem.one_plus_weight)),
      x_(inputs.x, rows),
      residual_(inputs.residual, rows),
      dy_(inputs.dy, rows),
      dsum_(inputs.dsum, rows) {}

// The sum of two numbers of the dtype is rounded to f32 first, as the operator specifies.
void RmsNormReference::read_h(std::int64_t row, std::span<double> h) const {
  x_.read(row, h);
  if (residual_.empty()) return;
  std::vector<double> residual(h.size());
  residual_.read(row, residual);
  for (std::size_t c = 0; c < h.size(); ++c) {
    h[c] = rounded(static_cast<float>(h[c] + residual[c]), problem_.dtype);
  }
}

void RmsNormReference::y_row(std::int64_t row, std::span<double> y) const {
  read_h(row, y);
  const double rstd = reciprocal_rms(y, problem_.eps);
  for (std::size_t c = 0; c < y.size(); ++c) y[c] *= rstd * w_[c];
}

void RmsNormReference::dx_row(std::int64_t row, std::span<double> dx) const {
  std::vector<double> h(dx.size());
  std::vector<double> t(dx.size());
  read_h(row, h);
  dy_.read(row, t);
  for (std::size_t c = 0; c < t.size(); ++c) t[c] *= w_[c];
  const double rstd = reciprocal_rms(h, problem_.eps);
  const double k = dot(t, h) / static_cast<double>(h.size()) * rstd * rstd;
  if (dsum_.empty()) {
    std::fill(dx.begin(), dx.end(), 0.0);
  } else {
    dsum_.read(row, dx);
  }
  for (std::size_t c = 0; c < dx.size(); ++c) dx[c] += (t[c] - h[c] * k) * rstd;
}

RmsNormSums::RmsNormSums(const RmsNormProblem& problem, const RmsNormInputs& inputs, int threads)
    : rstd(static_cast<std::size_t>(problem.rows)), dg(static_cast<std::size_t>(problem.cols)) {
  const auto make = [&](const std::vector<std::int64_t>& rows) {
    return RmsNormReference(problem, inputs, rows);
  };
  sum_over_rows(inputs.x, threads, dg, make,
                [&](const RmsNormReference& rows, std::int64_t row, std::vector<double>& h,
                    std::vector<double>& dy, std::vector<double>& sums) {
                  rows.read_h(row, h);
                  const double r = reciprocal_rms(h, problem.eps);
                  rstd[static_cast<std::size_t>(row)] = r;
                  if (rows.dy_.empty()) return;
                  rows.dy_.read(row, dy);
                  for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += dy[c] * (h[c] * r);
                });
}

NormRopeReference::NormRopeReference(const RmsNormRopeProblem& problem,
                                     const NormRopeInputs& inputs,
                                     const RotationReference& rotation,
                                     const std::vector<std::int64_t>& tokens)
    : rotation_(rotation),
      eps_(problem.eps),
      w_(weights(inputs.g, problem.one_plus_weight)),
      x_(inputs.x, tokens),
      dout_(inputs.dout, tokens) {}

void NormRopeReference::read_dn(std::int64_t token, std::span<double> dn) const {
  dout_.read(token, dn);
  rotation_.rotate(token, true, dn);
}

void NormRopeReference::out_row(std::int64_t token, std::span<double> out) const {
  x_.read(token, out);
  for (std::size_t begin = 0; begin < out.size(); begin += w_.size()) {
    const std::span<double> x = out.subspan(begin, w_.size());
    const double rstd = reciprocal_rms(x, eps_);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= rstd * w_[i];
  }
  rotation_.rotate(token, false, out);
}

void NormRopeReference::dx_row(std::int64_t token, std::span<double> dx) const {
  std::vector<double> row(dx.size());
  x_.read(token, row);
  read_dn(token, dx);
  for (std::size_t begin = 0; begin < dx.size(); begin += w_.size()) {
    const std::span<double> x = std::span(row).subspan(begin, w_.size());
    const std::span<double> t = dx.subspan(begin, w_.size());
    for (std::size_t i = 0; i < t.size(); ++i) t[i] *= w_[i];
    const double rstd = reciprocal_rms(x, eps_);
    const double k = dot(t, x) / static_cast<double>(x.size()) * rstd * rstd;
    for (std::size_t i = 0; i < t.size(); ++i) t[i] = (t[i] - x[i] * k) * rstd;
  }
}

NormRopeSums::NormRopeSums(const RmsNormRopeProblem& problem, const NormRopeInputs& inputs,
                           const RotationReference& rotation, int threads)
    : dg(static_cast<std::size_t>(inputs.g.shape[0])) {
  const std::size_t norms = static_cast<std::size_t>(inputs.x.cols()) / dg.size();  // per token
  rstd.resize(static_cast<std::size_t>(inputs.x.rows()) * norms);
  const auto make = [&](const std::vector<std::int64_t>& tokens) {
    return NormRopeReference(problem, inputs, rotation, tokens);
  };
  sum_over_rows(inputs.x, threads, dg, make,
                [&](const NormRopeReference& tokens, std::int64_t token, std::vector<double>& x,
                    std::vector<double>& dn, std::vector<double>& sums) {
                  tokens.x_.read(token, x);
                  if (!tokens.dout_.empty()) tokens.read_dn(token, dn);
                  for (std::size_t n = 0; n < norms; ++n) {
                    const double* x_of_norm = x.data() + n * sums.size();
                    const double* dn_of_norm = dn.data() + n * sums.size();
                    const double r = reciprocal_rms({x_of_norm, sums.size()}, problem.eps);
                    rstd[static_cast<std::size_t>(token) * norms + n] = r;
                    for (std::size_t c = 0; c < sums.size(); ++c)
                      sums[c] += dn_of_norm[c] * x_of_norm[c] * r;
                  }
                });
}

}  // namespace octet
