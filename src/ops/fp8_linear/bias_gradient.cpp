#include "ops/fp8_linear/bias_gradient.hpp"

#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "dispatch/machine.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr std::int64_t kTaskCols = 512;  // sums that stay in the L1 cache

void add_rows_scalar(const RowsToAdd& task) {
  const TensorView& dy = *task.dy;
  for (std::int64_t row = task.row; row < task.row + task.rows; ++row) {
    const std::int64_t first = row * dy.strides[0] + task.col;
    for (std::int64_t c = 0; c < task.cols; ++c) {
      task.sums[c] += load_f32(dy.data, first + c, dy.dtype);
    }
  }
}

auto* add_rows_of(std::optional<InstructionSet> instructions) {
  if (!instructions) return add_rows_scalar;
  return *instructions == InstructionSet::avx512 ? add_rows_avx512 : add_rows_avx2;
}

// The sums of the runs, for columns [first, first + cols) with cols <= kTaskCols.
void add_runs(const BiasGradientArgs& args, std::int64_t first, std::int64_t cols) {
  const std::int64_t pitch = args.dy.cols();
  const std::int64_t runs = bias_gradient_runs(args.dy.rows());
  std::array<float, kTaskCols> total{};
  for (std::int64_t line = 0; line < std::min(runs, kBiasGradientLines); ++line) {
    std::array<float, kTaskCols> sum{};
    for (std::int64_t run = line; run < runs; run += kBiasGradientLines) {
      const float* partial = args.partials + run * pitch + first;
      for (std::int64_t c = 0; c < cols; ++c) sum[c] += partial[c];
    }
    for (std::int64_t c = 0; c < cols; ++c) total[c] += sum[c];
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    const float old =
        args.accumulate ? load_f32(args.dbias.data, first + c, args.dbias.dtype) : 0.0f;
    store_f32(args.dbias.data, first + c, args.dbias.dtype,
              args.accumulate ? old + total[c] : total[c]);
  }
}

}  // namespace

void add_bias_gradient(const BiasGradientArgs& args, std::optional<InstructionSet> instructions,
                       int threads) {
  const std::int64_t rows = args.dy.rows();
  const std::int64_t cols = args.dy.cols();
  const std::int64_t pieces = ceil_div(cols, kTaskCols);
  const auto add_rows = add_rows_of(instructions);
  parallel_for(threads, bias_gradient_runs(rows) * pieces, [&](std::int64_t task) {
    const std::int64_t row = task / pieces * kBiasGradientRunRows;
    const std::int64_t col = task % pieces * kTaskCols;
    const std::int64_t width = std::min(kTaskCols, cols - col);
    float* sums = args.partials + task / pieces * cols + col;
    std::fill_n(sums, width, 0.0f);
    add_rows({&args.dy, row, std::min(kBiasGradientRunRows, rows - row), col, width, sums});
  });
  parallel_for(threads, pieces, [&](std::int64_t piece) {
    add_runs(args, piece * kTaskCols, std::min(kTaskCols, cols - piece * kTaskCols));
  });
}

BiasGradient::BiasGradient(const Fp8LinearProblem& layer, int threads)
    : rows_(layer.m),
      cols_(layer.n),
      accumulate_(layer.accumulate_dw),
      on_cuda_(layer.device.type == DeviceType::cuda) {
  const Machine machine = this_machine(layer.device, threads);
  threads_ = machine.threads;
  if (!on_cuda_) {
    if (machine.avx2) instructions_ = best_instruction_set(machine);
    return;
  }
  if (const std::string refusal = refuse_off_hopper(layer.device, machine); !refusal.empty()) {
    fail(ErrorCode::unsupported, "fp8_linear: dbias ", refusal, "\n  problem: ", describe(layer));
  }
  if (cols_ >= std::int64_t{1} << 31) {
    fail(ErrorCode::unsupported, "fp8_linear: dbias on a GPU needs N below 2^31, got ", cols_);
  }
}

const char* BiasGradient::implementation() const {
  if (on_cuda_) return "cuda_sm90_rows";
  return instructions_ ? "cpu_simd" : "cpu_reference";
}

std::size_t BiasGradient::workspace_bytes() const {
  return static_cast<std::size_t>(bias_gradient_runs(rows_) * cols_) * sizeof(float);
}

void BiasGradient::run(const TensorView& dy, const TensorView& dbias, const Workspace& workspace,
                       void* stream) const {
  const BiasGradientArgs args{dy, dbias, static_cast<float*>(workspace.data), accumulate_};
  if (on_cuda_) return launch_bias_gradient(args, stream);
  add_bias_gradient(args, instructions_, threads_);
}

}  // namespace octet
