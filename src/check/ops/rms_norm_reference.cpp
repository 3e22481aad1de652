#include "check/ops/rms_norm_reference.hpp"

#include "cpu/threads.hpp"

#include <cmath>
#include <numeric>

namespace octet {
namespace {

// Rows that come to the host at once, in elements.
constexpr std::int64_t kBatch = std::int64_t{1} << 24;

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

double reciprocal_rms(std::span<const double> h, double eps) {
  return 1 / std::sqrt(dot(h, h) / static_cast<double>(h.size()) + eps);
}

}  // namespace

RmsNormReference::RmsNormReference(const RmsNormProblem& problem, const RmsNormInputs& inputs,
                                   const std::vector<std::int64_t>& rows)
    : problem_(problem),
      w_(decoded(inputs.g)),
      x_(inputs.x, rows),
      residual_(inputs.residual, rows),
      dy_(inputs.dy, rows),
      dsum_(inputs.dsum, rows) {
  if (!problem.one_plus_weight) return;
  for (double& w : w_) w += 1;
}

// The sum of two numbers of the dtype is rounded to f32 first, as the operator says.
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
  constexpr std::int64_t kParts = 16;
  const std::int64_t step = std::max<std::int64_t>(kBatch / problem.cols, 1);
  for (std::int64_t begin = 0; begin < problem.rows; begin += step) {
    std::vector<std::int64_t> batch(static_cast<std::size_t>(std::min(step, problem.rows - begin)));
    std::iota(batch.begin(), batch.end(), begin);
    const RmsNormReference rows(problem, inputs, batch);
    const auto count = static_cast<std::int64_t>(batch.size());
    std::vector<std::vector<double>> parts(kParts, std::vector<double>(dg.size()));
    parallel_for(threads != 0 ? threads : default_threads(), kParts, [&](std::int64_t part) {
      std::vector<double> h(dg.size());
      std::vector<double> dy(dg.size());
      std::vector<double>& sums = parts[static_cast<std::size_t>(part)];
      for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
        rows.read_h(begin + i, h);
        const double r = reciprocal_rms(h, problem.eps);
        rstd[static_cast<std::size_t>(begin + i)] = r;
        if (rows.dy_.empty()) continue;
        rows.dy_.read(begin + i, dy);
        for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += dy[c] * (h[c] * r);
      }
    });
    for (const std::vector<double>& sums : parts) {
      for (std::size_t c = 0; c < dg.size(); ++c) dg[c] += sums[c];
    }
  }
}

}  // namespace octet
