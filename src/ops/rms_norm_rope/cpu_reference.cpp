// The formulas, one norm of one token at a time, on rows of f32 in the workspace.
#include "core/tree_sum.hpp"
#include "core/workspace.hpp"
#include "cpu/threads.hpp"
#include "ops/rms_norm_rope/problem.hpp"
#include "ops/rms_norm_rope/weight_gradient.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

// Scratch of one run of tokens.
struct Rows {
  float* x;
  float* n;  // forward: normed; backward: its gradient
};

std::int64_t longest_row(const RmsNormRopeProblem& problem) {
  return weight_length(problem, std::max(problem.q_heads, problem.k_heads));
}

std::size_t scratch_bytes(const RmsNormRopeProblem& problem) {
  return aligned_bytes(static_cast<std::size_t>(run_count(problem) * 2 * longest_row(problem)) *
                       sizeof(float));
}

Rows rows_of_run(const RmsNormRopeProblem& problem, void* scratch, std::int64_t run) {
  const std::int64_t length = longest_row(problem);
  float* first = static_cast<float*>(scratch) + run * 2 * length;
  return {first, first + length};
}

// The heads of one norm.
struct Place {
  std::int64_t batch;
  std::int64_t token;
  std::int64_t first_head;
  std::int64_t heads;
  std::int64_t head_dim;
};

void gather(const TensorView& from, const Place& place, float* row) {
  const HeadsView view = heads_view(from);
  for (std::int64_t h = 0; h < place.heads; ++h) {
    const void* head = view.head(place.batch, place.token, place.first_head + h);
    for (std::int64_t i = 0; i < place.head_dim; ++i) *row++ = load_f32(head, i, view.dtype);
  }
}

void scatter(const float* row, const TensorView& to, const Place& place) {
  const HeadsView view = heads_view(to);
  for (std::int64_t h = 0; h < place.heads; ++h) {
    void* head = view.head(place.batch, place.token, place.first_head + h);
    for (std::int64_t i = 0; i < place.head_dim; ++i) store_f32(head, i, view.dtype, *row++);
  }
}

// `direction` is 1, or -1 for the gradient.
void rotate_heads(const RotatedHeads& heads, const TokenAngles& angles, float direction,
                  std::int64_t count, float* row) {
  for (std::int64_t h = 0; h < count; ++h, row += heads.head_dim) {
    for (std::int64_t pair = 0; pair < heads.pairs(); ++pair) {
      const PairOfElements at = pair_of_elements(heads.rotation, pair);
      const float a = row[at.first];
      const float b = row[at.second];
      const float cos = angles.cos(pair);
      const float sin = direction * angles.sin(pair);
      row[at.first] = std::fma(a, cos, -(b * sin));
      row[at.second] = std::fma(b, cos, a * sin);
    }
  }
}

float weight_at(const RmsNormRopeProblem& problem, const TensorView& g, std::int64_t index) {
  const float value = load_f32(g.data, index, problem.weight_dtype);
  return problem.one_plus_weight ? 1.0f + value : value;
}

float* rstd_at(const TensorView& rstd, std::int64_t index) {
  return static_cast<float*>(rstd.data) + index;
}

void norm_forward(const RmsNormRopeProblem& problem, const ForwardSide& side, const Place& place,
                  const TokenAngles& angles, std::int64_t rstd_index, const Rows& rows) {
  const std::int64_t length = place.heads * place.head_dim;
  gather(side.x, place, rows.x);
  TreeSum squares;
  for (std::int64_t i = 0; i < length; ++i) squares.add(rows.x[i] * rows.x[i]);
  const float mean = squares.sum() / static_cast<float>(length);
  const float rstd = 1.0f / std::sqrt(mean + problem.eps);
  for (std::int64_t i = 0; i < length; ++i) {
    rows.n[i] = (rows.x[i] * rstd) * weight_at(problem, side.g, i);
  }
  rotate_heads(rotated_heads(problem), angles, 1.0f, place.heads, rows.n);
  scatter(rows.n, side.out, place);
  if (problem.training) *rstd_at(side.rstd, rstd_index) = rstd;
}

void norm_backward(const RmsNormRopeProblem& problem, const BackwardSide& side, const Place& place,
                   const TokenAngles& angles, std::int64_t rstd_index, const Rows& rows,
                   float* dg) {
  const std::int64_t length = place.heads * place.head_dim;
  const float rstd = *rstd_at(side.rstd, rstd_index);
  gather(side.x, place, rows.x);
  gather(side.dout, place, rows.n);
  rotate_heads(rotated_heads(problem), angles, -1.0f, place.heads, rows.n);
  TreeSum products;
  for (std::int64_t i = 0; i < length; ++i) {
    dg[i] += rows.n[i] * (rows.x[i] * rstd);
    rows.n[i] *= weight_at(problem, side.g, i);
    products.add(rows.n[i] * rows.x[i]);
  }
  const float mean = products.sum() / static_cast<float>(length);
  const float k = (mean * rstd) * rstd;
  for (std::int64_t i = 0; i < length; ++i) {
    rows.n[i] = std::fma(-rows.x[i], k, rows.n[i]) * rstd;
  }
  scatter(rows.n, side.dx, place);
}

// Calls visit(place, angles, index of rstd) for every norm of a run of tokens, in order.
template <class Visit>
void for_norms(const RmsNormRopeProblem& problem, std::int64_t heads, const RotationArgs& rotation,
               std::int64_t run, const Visit& visit) {
  const std::int64_t together = heads_per_norm(problem, heads);
  const std::int64_t norms = norms_per_token(problem, heads);
  const std::int64_t end = run_begin(problem, run + 1);
  for (std::int64_t i = run_begin(problem, run); i < end; ++i) {
    Place place{i / problem.seq, i % problem.seq, 0, together, problem.head_dim};
    const TokenAngles angles(problem.rotation, rotation, place.batch, place.token);
    for (std::int64_t norm = 0; norm < norms; ++norm) {
      place.first_head = norm * together;
      visit(place, angles, i * norms + norm);
    }
  }
}

void run_forward(const RmsNormRopeProblem& problem, const RmsNormRopeForwardArgs& args,
                 const RunContext& context) {
  for (const ForwardSide& side : sides_of(problem, args)) {
    parallel_for(context.threads, run_count(problem), [&](std::int64_t run) {
      const Rows rows = rows_of_run(problem, context.workspace.data, run);
      for_norms(problem, side.heads, args.rotation, run,
                [&](const Place& place, const TokenAngles& angles, std::int64_t rstd) {
                  norm_forward(problem, side, place, angles, rstd, rows);
                });
    });
  }
}

std::size_t gradient_bytes(const RmsNormRopeProblem& problem, std::int64_t heads) {
  return GradientRows::bytes(run_count(problem), weight_length(problem, heads));
}

void run_backward(const RmsNormRopeProblem& problem, const RmsNormRopeBackwardArgs& args,
                  const RunContext& context) {
  const std::int64_t runs = run_count(problem);
  WorkspaceCarver carver(context.workspace);
  void* scratch = carver.take(scratch_bytes(problem));
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t length = weight_length(problem, side.heads);
    const GradientRows gradient(carver.take(gradient_bytes(problem, side.heads)), runs, length);
    parallel_for(context.threads, runs, [&](std::int64_t run) {
      const Rows rows = rows_of_run(problem, scratch, run);
      float* dg = gradient.cleared_row(run);
      for_norms(problem, side.heads, args.rotation, run,
                [&](const Place& place, const TokenAngles& angles, std::int64_t rstd) {
                  norm_backward(problem, side, place, angles, rstd, rows, dg);
                });
    });
    gradient.add_rows(context.threads);
    for (std::int64_t c = 0; c < length; ++c) {
      store_f32(side.dg.data, c, problem.dg_dtype, gradient.sum(c));
    }
  }
}

}  // namespace

const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuReference{
    "cpu_reference",
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return refuse_off_cpu(problem.device);
    },
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return planned<RmsNormRopeForwardArgs>(problem, "scalar", scratch_bytes(problem),
                                             run_forward);
    },
};

const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuReference{
    "cpu_reference",
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return refuse_off_cpu(problem.device);
    },
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return planned<RmsNormRopeBackwardArgs>(
          problem, "scalar",
          scratch_bytes(problem) + aligned_bytes(gradient_bytes(problem, problem.q_heads)) +
              aligned_bytes(gradient_bytes(problem, problem.k_heads)),
          run_backward);
    },
};

}  // namespace octet
