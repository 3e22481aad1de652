// The steps, one row at a time.
#include "core/numeric.hpp"
#include "core/tree_sum.hpp"
#include "cpu/threads.hpp"
#include "ops/moe_rows/cpu_steps.hpp"

#include <cmath>
#include <cstring>

namespace octet {
namespace {

float at(const TensorView& matrix, std::int64_t row, std::int64_t col) {
  return load_f32(matrix.data, row * matrix.strides[0] + col, matrix.dtype);
}
void set(const TensorView& matrix, std::int64_t row, std::int64_t col, float value) {
  store_f32(matrix.data, row * matrix.strides[0] + col, matrix.dtype, value);
}
void* row_at(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

class ScalarSteps : public RowSteps {
 public:
  explicit ScalarSteps(int threads) : threads_(threads) {}

  void spread(const SlotMaps& maps, const SpreadStep& step) const override {
    const std::int64_t cols = step.grouped.cols();
    const auto bytes = static_cast<std::size_t>(cols * size_bytes(step.grouped.dtype));
    parallel_for(threads_, maps.rows(), [&](std::int64_t row) {
      const std::int64_t slot = maps.slot(row);
      if (slot < 0) {
        if (step.tail == GroupTail::zero) std::memset(row_at(step.grouped, row), 0, bytes);
        return;
      }
      const std::int64_t token = slot / maps.top_k();
      if (step.weights.data == nullptr) {
        std::memcpy(row_at(step.grouped, row), row_at(step.from, token), bytes);
        return;
      }
      const float weight = at(step.weights, token, slot % maps.top_k());
      for (std::int64_t c = 0; c < cols; ++c) {
        set(step.grouped, row, c, weight * at(step.from, token, c));
      }
    });
  }

  void sum(const SlotMaps& maps, const SumStep& step) const override {
    parallel_for(threads_, maps.tokens(), [&](std::int64_t token) {
      for (std::int64_t c = 0; c < step.out.cols(); ++c) {
        float sum = 0;
        for (std::int64_t k = 0; k < maps.top_k(); ++k) {
          const std::int64_t row = maps.row(token, k);
          if (row < 0) continue;
          const float value = at(step.grouped, row, c);
          sum = step.weights.data == nullptr ? sum + value
                                             : std::fma(at(step.weights, token, k), value, sum);
        }
        set(step.out, token, c, sum);
      }
    });
  }

  void dot(const SlotMaps& maps, const DotStep& step) const override {
    parallel_for(threads_, maps.tokens(), [&](std::int64_t token) {
      for (std::int64_t k = 0; k < maps.top_k(); ++k) {
        const std::int64_t row = maps.row(token, k);
        TreeSum products;
        for (std::int64_t c = 0; row >= 0 && c < step.dout.cols(); ++c) {
          products.add(at(step.dout, token, c) * at(step.grouped, row, c));
        }
        set(step.dweights, token, k, products.sum());
      }
    });
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<RowSteps> scalar_steps(int threads) {
  return std::make_unique<ScalarSteps>(threads);
}

}  // namespace octet
