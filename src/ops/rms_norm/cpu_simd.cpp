// Row by row, in runs of rows per thread; the weights are converted to f32 once, in the workspace.
// Memory-bound: large outputs are stored past the caches.
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "core/workspace.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/fp8_output/cpu_strips.hpp"
#include "ops/rms_norm/cpu_simd.hpp"

#include <hwy/cache_control.h>

namespace octet {
namespace {

constexpr std::int64_t kRunsPerThread = 16;

void* row_of(const TensorView& matrix, std::int64_t row) {
  if (matrix.data == nullptr) return nullptr;
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

std::int64_t weight_length(const RmsNormProblem& problem) {
  return round_up(problem.cols, kWeightStep);
}
std::size_t weight_bytes(const RmsNormProblem& problem) {
  return static_cast<std::size_t>(weight_length(problem)) * sizeof(float);
}

// w in f32, zero-filled up to weight_length().
const float* make_weights(const RmsNormProblem& problem, const TensorView& g, void* memory) {
  auto* w = static_cast<float*>(memory);
  parallel_for(1, 1, [&](std::int64_t) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      const float value = load_f32(g.data, c, problem.weight_dtype);
      w[c] = problem.one_plus_weight ? 1 + value : value;
    }
    std::fill(w + problem.cols, w + weight_length(problem), 0.0f);
  });
  return w;
}

NormedRow normed_row(const RmsNormProblem& problem, const RmsNormForwardArgs& args, const float* w,
                     std::int64_t row) {
  NormedRow result;
  result.cols = problem.cols;
  const bool last = row + 1 == problem.rows;
  result.x = row_of(args.x, row);
  if (!last) result.next_x = row_of(args.x, row + 1);
  if (problem.residual) {
    result.residual = row_of(args.residual, row);
    if (!last) result.next_residual = row_of(args.residual, row + 1);
    result.sum = row_of(args.sum, row);
    result.stream_sum = streams(args.sum);
  }
  result.w = w;
  result.eps = problem.eps;
  return result;
}

void store_rstd(const RmsNormProblem& problem, const RmsNormForwardArgs& args, std::int64_t row,
                float rstd) {
  if (problem.training) static_cast<float*>(args.rstd.data)[row] = rstd;
}

void write_rows(const RmsNormProblem& problem, const RmsNormForwardArgs& args, const float* w,
                int threads, const RmsNormKernels& kernels) {
  const bool stream = streams(args.y);
  const std::int64_t run = std::max<std::int64_t>(problem.rows / (threads * kRunsPerThread), 1);
  parallel_for(threads, ceil_div(problem.rows, run), [&](std::int64_t index) {
    const std::int64_t end = std::min((index + 1) * run, problem.rows);
    for (std::int64_t r = index * run; r < end; ++r) {
      NormedRow row = normed_row(problem, args, w, r);
      row.y = row_of(args.y, r);
      row.stream_y = stream;
      store_rstd(problem, args, r, kernels.norm_row(row));
    }
    hwy::FlushStream();  // other threads see the streamed stores before what follows
  });
}

std::string refuse(const RmsNormProblem& problem, const Machine& machine) {
  return refuse_off_simd(problem.device, machine);
}

std::string refuse_forward(const RmsNormProblem& problem, const Machine& machine) {
  const std::string refusal = refuse(problem, machine);
  return refusal.empty() && problem.fp8 ? refuse_fused_scales(*problem.fp8) : refusal;
}

}  // namespace

void rms_norm_forward_cpu_simd(const RmsNormProblem& problem, const RmsNormForwardArgs& args,
                               const RunContext& context, InstructionSet instructions) {
  const RmsNormKernels& kernels = rms_norm_kernels(problem.dtype, instructions);
  WorkspaceCarver workspace(context.workspace);
  const float* w = make_weights(problem, args.g, workspace.take(weight_bytes(problem)));
  if (!problem.fp8) {
    write_rows(problem, args, w, context.threads, kernels);
    return;
  }
  write_fp8_strips(
      forward_cast(problem), args.fp8, {}, {workspace.rest(), context.threads, nullptr},
      instructions, [&](const Fp8Strip& strip) {
        for (std::int64_t r = 0; r < strip.rows; ++r) {
          NormedRow row = normed_row(problem, args, w, strip.row + r);
          row.y = static_cast<char*>(strip.data) + r * strip.pitch * size_bytes(problem.dtype);
          store_rstd(problem, args, strip.row + r, kernels.norm_row(row));
        }
        hwy::FlushStream();
      });
}

void rms_norm_backward_cpu_simd(const RmsNormProblem& problem, const RmsNormBackwardArgs& args,
                                const RunContext& context, InstructionSet instructions) {
  const RmsNormKernels& kernels = rms_norm_kernels(problem.dtype, instructions);
  WorkspaceCarver workspace(context.workspace);
  const float* w = make_weights(problem, args.g, workspace.take(weight_bytes(problem)));
  const std::int64_t pitch = weight_length(problem);
  auto* partial_sums = static_cast<float*>(workspace.rest().data);
  const bool stream =
      streams(args.dx) && (args.dresidual.data == nullptr || streams(args.dresidual));
  parallel_for(context.threads, gradient_runs(problem), [&](std::int64_t run) {
    GradientRow row;
    row.cols = problem.cols;
    row.w = w;
    row.dg_sums = partial_sums + run * pitch;
    row.stream = stream;
    std::fill_n(row.dg_sums, pitch, 0.0f);
    const std::int64_t end = gradient_run_begin(problem, run + 1);
    for (std::int64_t r = gradient_run_begin(problem, run); r < end; ++r) {
      row.dy = row_of(args.dy, r);
      row.h = row_of(args.h, r);
      row.next_dy = r + 1 < end ? row_of(args.dy, r + 1) : nullptr;
      row.next_h = r + 1 < end ? row_of(args.h, r + 1) : nullptr;
      row.rstd = static_cast<const float*>(args.rstd.data)[r];
      row.dsum = row_of(args.dsum, r);
      row.dx = row_of(args.dx, r);
      row.dresidual = row_of(args.dresidual, r);
      kernels.backward_row(row);
    }
    hwy::FlushStream();
  });
  add_gradient_runs(problem, partial_sums, pitch, args.dg, context.threads);
}

const RmsNormForwardImplementation kRmsNormForwardCpuSimd{
    "cpu_simd",
    refuse_forward,
    [](const RmsNormProblem& problem, const Machine& machine) {
      const std::size_t strips =
          problem.fp8 ? fp8_strips_workspace_bytes(forward_cast(problem), machine.threads) : 0;
      return planned_simd<RmsNormForwardArgs>(problem, machine,
                                              aligned_bytes(weight_bytes(problem)) + strips,
                                              rms_norm_forward_cpu_simd);
    },
};

const RmsNormBackwardImplementation kRmsNormBackwardCpuSimd{
    "cpu_simd",
    refuse,
    [](const RmsNormProblem& problem, const Machine& machine) {
      return planned_simd<RmsNormBackwardArgs>(
          problem, machine,
          aligned_bytes(weight_bytes(problem)) +
              static_cast<std::size_t>(gradient_runs(problem)) * weight_bytes(problem),
          rms_norm_backward_cpu_simd);
    },
};

}  // namespace octet
