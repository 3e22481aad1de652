// Token by token, in runs of tokens per thread: a token is read once and stored top_k times, or its
// rows are read and one is stored. Memory-bound: large outputs are stored past the caches.
#include "core/checks.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/moe_rows/cpu_steps.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace octet {
namespace {

constexpr std::int64_t kRunsPerThread = 16;

void* row_at(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}
float* slot_at(const TensorView& slots, std::int64_t token) {
  return static_cast<float*>(slots.data) + token * slots.strides[0];
}

// The rows of a token that exist, and their weights.
struct TokenRows {
  std::vector<const void*> rows;
  std::vector<float> weights;

  explicit TokenRows(std::int64_t top_k)
      : rows(static_cast<std::size_t>(top_k)), weights(static_cast<std::size_t>(top_k)) {}
  // Returns how many there are.
  std::int64_t find(const SlotMaps& maps, const SumStep& step, std::int64_t token) {
    std::size_t count = 0;
    for (std::int64_t k = 0; k < maps.top_k(); ++k) {
      const std::int64_t row = maps.row(token, k);
      if (row < 0) continue;
      if (step.weights.data != nullptr) weights[count] = slot_at(step.weights, token)[k];
      rows[count++] = row_at(step.grouped, row);
    }
    return static_cast<std::int64_t>(count);
  }
};

class SimdSteps : public RowSteps {
 public:
  SimdSteps(int threads, InstructionSet instructions)
      : threads_(threads), instructions_(instructions) {}

  void spread(const SlotMaps& maps, const SpreadStep& step) const override {
    const MoeRowKernels& kernels = moe_row_kernels(step.grouped.dtype, instructions_);
    const std::int64_t cols = step.grouped.cols();
    const std::int64_t bytes = cols * size_bytes(step.grouped.dtype);
    const bool stream = streams(step.grouped);
    for_each_run(maps.tokens(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin * maps.top_k(); slot < end * maps.top_k(); ++slot) {
        const std::int64_t token = slot / maps.top_k();
        const std::int64_t k = slot % maps.top_k();
        const std::int64_t row = maps.row(token, k);
        if (row < 0 || maps.slot(row) != slot) continue;
        if (step.weights.data == nullptr) {
          kernels.copy(row_at(step.from, token), bytes, row_at(step.grouped, row), stream);
        } else {
          kernels.scale(row_at(step.from, token), slot_at(step.weights, token)[k], cols,
                        row_at(step.grouped, row), stream);
        }
      }
    });
    if (step.tail == GroupTail::untouched) return;
    for_each_run(maps.rows(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        if (maps.slot(row) >= 0) continue;
        std::memset(row_at(step.grouped, row), 0, static_cast<std::size_t>(bytes));
      }
    });
  }

  void sum(const SlotMaps& maps, const SumStep& step) const override {
    const MoeRowKernels& kernels = moe_row_kernels(step.out.dtype, instructions_);
    const bool stream = streams(step.out);
    const bool weighted = step.weights.data != nullptr;
    for_each_run(maps.tokens(), [&](std::int64_t begin, std::int64_t end) {
      TokenRows found(maps.top_k());
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t count = found.find(maps, step, token);
        kernels.sum(found.rows.data(), weighted ? found.weights.data() : nullptr, count,
                    step.out.cols(), row_at(step.out, token), stream);
      }
    });
  }

  void dot(const SlotMaps& maps, const DotStep& step) const override {
    const MoeRowKernels& kernels = moe_row_kernels(step.dout.dtype, instructions_);
    for_each_run(maps.tokens(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        for (std::int64_t k = 0; k < maps.top_k(); ++k) {
          const std::int64_t row = maps.row(token, k);
          slot_at(step.dweights, token)[k] =
              row < 0 ? 0.0f
                      : kernels.dot(row_at(step.dout, token), row_at(step.grouped, row),
                                    step.dout.cols());
        }
      }
    });
  }

 private:
  // Calls task(begin, end) for runs of 0 .. count - 1.
  template <class Task>
  void for_each_run(std::int64_t count, const Task& task) const {
    const std::int64_t run = std::max<std::int64_t>(count / (threads_ * kRunsPerThread), 1);
    parallel_for(threads_, ceil_div(count, run), [&](std::int64_t index) {
      task(index * run, std::min((index + 1) * run, count));
      hwy::FlushStream();  // other threads see the streamed stores before what follows
    });
  }

  int threads_;
  InstructionSet instructions_;
};

}  // namespace

std::unique_ptr<RowSteps> simd_steps(int threads, InstructionSet instructions) {
  return std::make_unique<SimdSteps>(threads, instructions);
}

}  // namespace octet
