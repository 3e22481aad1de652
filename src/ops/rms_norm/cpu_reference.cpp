// The formulas, one row at a time.
#include "core/numeric.hpp"
#include "core/tree_sum.hpp"
#include "cpu/threads.hpp"
#include "ops/rms_norm/problem.hpp"

#include <cmath>

namespace octet {
namespace {

// Row `row` of a matrix, or a vector.
struct Line {
  const TensorView& view;
  std::int64_t first;

  Line(const TensorView& matrix, std::int64_t row) : view(matrix), first(row * matrix.strides[0]) {}
  explicit Line(const TensorView& vector) : view(vector), first(0) {}

  float at(std::int64_t col) const { return load_f32(view.data, first + col, view.dtype); }
  void set(std::int64_t col, float value) const {
    store_f32(view.data, first + col, view.dtype, value);
  }
};

float weight(const RmsNormProblem& problem, const Line& g, std::int64_t col) {
  return problem.one_plus_weight ? 1 + g.at(col) : g.at(col);
}

float reciprocal_rms(const RmsNormProblem& problem, const Line& h) {
  TreeSum squares;
  for (std::int64_t c = 0; c < problem.cols; ++c) squares.add(h.at(c) * h.at(c));
  const float mean = squares.sum() / static_cast<float>(problem.cols);
  return 1 / std::sqrt(mean + problem.eps);
}

void norm_row(const RmsNormProblem& problem, const RmsNormForwardArgs& args, std::int64_t row) {
  if (problem.residual) {
    const Line x(args.x, row);
    const Line residual(args.residual, row);
    const Line sum(args.sum, row);
    for (std::int64_t c = 0; c < problem.cols; ++c) sum.set(c, x.at(c) + residual.at(c));
  }
  const Line h(problem.residual ? args.sum : args.x, row);
  const Line g(args.g);
  const Line y(args.y, row);
  const float rstd = reciprocal_rms(problem, h);
  for (std::int64_t c = 0; c < problem.cols; ++c) {
    y.set(c, h.at(c) * rstd * weight(problem, g, c));
  }
  if (problem.training) Line(args.rstd).set(row, rstd);
}

void run_forward(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                 const RunContext& context) {
  parallel_for(context.threads, problem.rows,
               [&](std::int64_t row) { norm_row(problem, args, row); });
}

// Adds the row's share of dg to `dg_sums`.
void backward_row(const RmsNormProblem& problem, const RmsNormBackwardArgs& args, std::int64_t row,
                  float* dg_sums) {
  const Line dy(args.dy, row);
  const Line h(args.h, row);
  const Line g(args.g);
  const Line dx(args.dx, row);
  const float rstd = Line(args.rstd).at(row);
  TreeSum products;
  for (std::int64_t c = 0; c < problem.cols; ++c) {
    products.add(dy.at(c) * weight(problem, g, c) * h.at(c));
  }
  const float k = products.sum() / static_cast<float>(problem.cols) * rstd * rstd;
  for (std::int64_t c = 0; c < problem.cols; ++c) {
    const float t = dy.at(c) * weight(problem, g, c);
    float gradient = std::fma(-h.at(c), k, t) * rstd;
    if (args.dsum.data != nullptr) gradient += Line(args.dsum, row).at(c);
    dx.set(c, gradient);
    if (args.dresidual.data != nullptr) Line(args.dresidual, row).set(c, gradient);
    dg_sums[c] += dy.at(c) * (h.at(c) * rstd);
  }
}

void run_backward(const RmsNormProblem& problem, const RmsNormBackwardArgs& args,
                  const RunContext& context) {
  auto* partial_sums = static_cast<float*>(context.workspace.data);
  parallel_for(context.threads, gradient_runs(problem), [&](std::int64_t run) {
    float* dg_sums = partial_sums + run * problem.cols;
    std::fill_n(dg_sums, problem.cols, 0.0f);
    const std::int64_t end = gradient_run_begin(problem, run + 1);
    for (std::int64_t row = gradient_run_begin(problem, run); row < end; ++row) {
      backward_row(problem, args, row, dg_sums);
    }
  });
  add_gradient_runs(problem, partial_sums, problem.cols, args.dg, context.threads);
}

}  // namespace

void add_gradient_runs(const RmsNormProblem& problem, const float* partial_sums, std::int64_t pitch,
                       const TensorView& dg, int threads) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t runs = gradient_runs(problem);
  parallel_for(threads, (problem.cols + kColumns - 1) / kColumns, [&](std::int64_t part) {
    const std::int64_t end = std::min(problem.cols, (part + 1) * kColumns);
    for (std::int64_t c = part * kColumns; c < end; ++c) {
      float sum = 0;
      for (std::int64_t run = 0; run < runs; ++run) sum += partial_sums[run * pitch + c];
      store_f32(dg.data, c, problem.dg_dtype, sum);
    }
  });
}

const RmsNormForwardImplementation kRmsNormForwardCpuReference{
    "cpu_reference",
    [](const RmsNormProblem& problem, const Machine&) {
      const std::string refusal = refuse_off_cpu(problem.device);
      return refusal.empty() && problem.fp8 ? "does not write FP8 output: unfused does" : refusal;
    },
    [](const RmsNormProblem& problem, const Machine&) {
      return planned<RmsNormForwardArgs>(problem, "scalar", 0, run_forward);
    },
};

const RmsNormBackwardImplementation kRmsNormBackwardCpuReference{
    "cpu_reference",
    [](const RmsNormProblem& problem, const Machine&) { return refuse_off_cpu(problem.device); },
    [](const RmsNormProblem& problem, const Machine&) {
      const auto partial_sums = static_cast<std::size_t>(gradient_runs(problem) * problem.cols);
      return planned<RmsNormBackwardArgs>(problem, "scalar", partial_sums * sizeof(float),
                                          run_backward);
    },
};

}  // namespace octet
