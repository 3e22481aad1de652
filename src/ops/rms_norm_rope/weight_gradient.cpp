#include "ops/rms_norm_rope/weight_gradient.hpp"

#include "core/workspace.hpp"

#include <algorithm>

namespace octet {
namespace {

std::size_t row_bytes(const RmsNormRopeProblem& problem, std::int64_t heads) {
  return static_cast<std::size_t>(weight_length(problem, heads)) * sizeof(float);
}

}  // namespace

std::size_t gradient_bytes(const RmsNormRopeProblem& problem) {
  const auto runs = static_cast<std::size_t>(run_count(problem));
  const std::size_t q = aligned_bytes(runs * row_bytes(problem, problem.q_heads));
  return problem.k_heads > 0 ? q + aligned_bytes(runs * row_bytes(problem, problem.k_heads)) : q;
}

std::vector<GradientRows> gradient_rows(const RmsNormRopeProblem& problem,
                                        const Workspace& workspace) {
  const auto runs = static_cast<std::size_t>(run_count(problem));
  WorkspaceCarver carver(workspace);
  std::vector<GradientRows> result;
  for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
    if (heads == 0) continue;
    auto* data = static_cast<float*>(carver.take(runs * row_bytes(problem, heads)));
    const std::int64_t length = weight_length(problem, heads);
    std::fill_n(data, runs * static_cast<std::size_t>(length), 0.0f);
    result.emplace_back(data, length);
  }
  return result;
}

void write_weight_gradient(const RmsNormRopeProblem& problem, const GradientRows& rows,
                           const TensorView& dg) {
  const std::int64_t runs = run_count(problem);
  for (std::int64_t c = 0; c < rows.length(); ++c) {
    float sum = 0;
    for (std::int64_t run = 0; run < runs; ++run) sum += rows.row(run)[c];
    store_f32(dg.data, c, dg.dtype, sum);
  }
}

}  // namespace octet
