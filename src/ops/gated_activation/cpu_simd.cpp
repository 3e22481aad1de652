// Row by row; a thread takes neighbouring rows. Outputs that are quantised are written to strips of
// rows in the workspace, and cast from there.
#include "ops/gated_activation/cpu_simd.hpp"

#include "core/checks.hpp"
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/fp8_output/cpu_strips.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

namespace octet {
namespace {

// Elements per task: enough that handing out tasks costs little.
constexpr std::int64_t kTaskElements = std::int64_t{1} << 16;

char* row_of(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

float weight_of(const TensorView& row_weight, std::int64_t row) {
  return row_weight.data == nullptr ? 1 : static_cast<const float*>(row_weight.data)[row];
}

// Calls work(row) for every one of `count` rows.
template <class Work>
void for_rows(std::int64_t count, std::int64_t cols, int threads, const Work& work) {
  const std::int64_t rows = std::max<std::int64_t>(1, kTaskElements / cols);
  parallel_for(threads, ceil_div(count, rows), [&](std::int64_t task) {
    const std::int64_t end = std::min((task + 1) * rows, count);
    for (std::int64_t row = task * rows; row < end; ++row) work(row);
    hwy::FlushStream();  // other threads see the streamed stores before what follows
  });
}

// Calls work(row, where row is to be written) for every row, and casts what was written.
template <class Work>
void for_rows_of_strips(const QuantizeProblem& cast, const Fp8Copies& copies,
                        const TensorView& table, const RunContext& context,
                        InstructionSet instructions, const Work& work) {
  write_fp8_strips(cast, copies, table, context, instructions, [&](const Fp8Strip& strip) {
    const std::int64_t pitch_bytes = strip.pitch * size_bytes(cast.input_dtype);
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      work(strip.row + r, static_cast<char*>(strip.data) + r * pitch_bytes);
    }
  });
}

std::string refuse(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_off_simd(problem.device, machine);
  return refusal.empty() && problem.fp8 ? refuse_fused_scales(*problem.fp8) : refusal;
}

int index_of(GateActivation activation) { return static_cast<int>(activation) - 1; }

}  // namespace

void gated_activation_forward_cpu_simd(const GatedActivationProblem& problem,
                                       const GatedActivationForwardArgs& args,
                                       const RunContext& context, InstructionSet instructions) {
  const ForwardKernel kernel =
      gated_activation_kernels(instructions, problem.dtype).forward[index_of(problem.activation)];
  const auto write_row = [&](std::int64_t row, void* y, bool stream) {
    kernel({row_of(args.gate, row), row_of(args.up, row), y, problem.cols,
            weight_of(args.row_weight, row), stream});
  };
  if (problem.fp8) {
    for_rows_of_strips(forward_cast(problem), args.fp8, args.table, context, instructions,
                       [&](std::int64_t row, char* y) { write_row(row, y, false); });
    return;
  }
  const std::int64_t rows = computed_rows(problem, args.table);
  const bool stream = streams(args.y);
  for_rows(rows, problem.cols, context.threads,
           [&](std::int64_t row) { write_row(row, row_of(args.y, row), stream); });
  if (problem.tail == GroupTail::zero) clear_rows(args.y, rows, context.threads);
}

void gated_activation_backward_cpu_simd(const GatedActivationProblem& problem,
                                        const GatedActivationBackwardArgs& args,
                                        const RunContext& context, InstructionSet instructions) {
  const BackwardKernel kernel =
      gated_activation_kernels(instructions, problem.dtype).backward[index_of(problem.activation)];
  const auto write_row = [&](std::int64_t row, void* dgate, void* dup, bool stream) {
    const float d_weight =
        kernel({row_of(args.dy, row), row_of(args.gate, row), row_of(args.up, row), dgate, dup,
                problem.cols, weight_of(args.row_weight, row), stream});
    if (problem.row_weight) static_cast<float*>(args.d_row_weight.data)[row] = d_weight;
  };
  const std::int64_t rows = computed_rows(problem, args.table);
  const bool zero_tail = problem.tail == GroupTail::zero;
  if (problem.row_weight && zero_tail) clear_rows(as_column(args.d_row_weight), rows, 1);
  if (problem.fp8) {
    const std::int64_t dup_offset = problem.cols * size_bytes(problem.dtype);
    for_rows_of_strips(
        backward_cast(problem), args.fp8, args.table, context, instructions,
        [&](std::int64_t row, char* dgate) { write_row(row, dgate, dgate + dup_offset, false); });
    return;
  }
  const bool stream = streams(args.dgate) && streams(args.dup);
  for_rows(rows, problem.cols, context.threads, [&](std::int64_t row) {
    write_row(row, row_of(args.dgate, row), row_of(args.dup, row), stream);
  });
  if (!zero_tail) return;
  clear_rows(args.dgate, rows, context.threads);
  clear_rows(args.dup, rows, context.threads);
}

const GatedActivationForwardImplementation kGatedActivationForwardCpuSimd{
    "cpu_simd",
    refuse,
    [](const GatedActivationProblem& problem, const Machine& machine) {
      return planned_simd<GatedActivationForwardArgs>(
          problem, machine,
          problem.fp8 ? fp8_strips_workspace_bytes(forward_cast(problem), machine.threads) : 0,
          gated_activation_forward_cpu_simd);
    },
};

const GatedActivationBackwardImplementation kGatedActivationBackwardCpuSimd{
    "cpu_simd",
    refuse,
    [](const GatedActivationProblem& problem, const Machine& machine) {
      return planned_simd<GatedActivationBackwardArgs>(
          problem, machine,
          problem.fp8 ? fp8_strips_workspace_bytes(backward_cast(problem), machine.threads) : 0,
          gated_activation_backward_cpu_simd);
    },
};

}  // namespace octet
