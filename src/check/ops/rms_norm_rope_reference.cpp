#include "check/ops/rms_norm_rope_reference.hpp"

#include "cpu/threads.hpp"

#include <cmath>
#include <numeric>

namespace octet {
namespace {

// Tokens that come to the host at once, in elements.
constexpr std::int64_t kBatch = std::int64_t{1} << 24;

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

double reciprocal_rms(std::span<const double> x, double eps) {
  return 1 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + eps);
}

}  // namespace

NormRopeReference::NormRopeReference(const RmsNormRopeProblem& problem,
                                     const NormRopeInputs& inputs,
                                     const RotationReference& rotation,
                                     const std::vector<std::int64_t>& tokens)
    : rotation_(rotation),
      eps_(problem.eps),
      w_(decoded(inputs.g)),
      x_(inputs.x, tokens),
      dout_(inputs.dout, tokens) {
  if (!problem.one_plus_weight) return;
  for (double& w : w_) w += 1;
}

void NormRopeReference::read_dn(std::int64_t token, std::span<double> dn) const {
  dout_.read(token, dn);
  rotation_.turn(token, true, dn);
}

void NormRopeReference::out_row(std::int64_t token, std::span<double> out) const {
  x_.read(token, out);
  for (std::size_t begin = 0; begin < out.size(); begin += w_.size()) {
    const std::span<double> x = out.subspan(begin, w_.size());
    const double rstd = reciprocal_rms(x, eps_);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= rstd * w_[i];
  }
  rotation_.turn(token, false, out);
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
  constexpr std::int64_t kParts = 16;
  const std::int64_t tokens = inputs.x.rows();
  const auto row_length = static_cast<std::size_t>(inputs.x.cols());
  const std::size_t norms = row_length / dg.size();  // per token
  rstd.resize(static_cast<std::size_t>(tokens) * norms);
  const std::int64_t step = std::max<std::int64_t>(kBatch / inputs.x.cols(), 1);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    std::vector<std::int64_t> batch(static_cast<std::size_t>(std::min(step, tokens - begin)));
    std::iota(batch.begin(), batch.end(), begin);
    const NormRopeReference reference(problem, inputs, rotation, batch);
    const auto count = static_cast<std::int64_t>(batch.size());
    std::vector<std::vector<double>> parts(kParts, std::vector<double>(dg.size()));
    parallel_for(threads != 0 ? threads : default_threads(), kParts, [&](std::int64_t part) {
      std::vector<double> x(row_length);
      std::vector<double> dn(row_length);
      std::vector<double>& sums = parts[static_cast<std::size_t>(part)];
      for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
        reference.x_.read(begin + i, x);
        if (!reference.dout_.empty()) reference.read_dn(begin + i, dn);
        for (std::size_t n = 0; n < norms; ++n) {
          const double* x_of_norm = x.data() + n * sums.size();
          const double* dn_of_norm = dn.data() + n * sums.size();
          const double r = reciprocal_rms({x_of_norm, sums.size()}, problem.eps);
          rstd[static_cast<std::size_t>(begin + i) * norms + n] = r;
          for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += dn_of_norm[c] * x_of_norm[c] * r;
        }
      }
    });
    for (const std::vector<double>& sums : parts) {
      for (std::size_t c = 0; c < dg.size(); ++c) dg[c] += sums[c];
    }
  }
}

}  // namespace octet
