// max(g, 0)^2 of small integers and row weights that are powers of two: every result is exact, on
// every path, for every kind of tail.
#include "ops/gated_activation/case.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

int gate_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r * 7 + c * 3) % 9) - 4; }
int up_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r * 5 + c) % 7) - 3; }
int dy_at(std::int64_t r, std::int64_t c) { return static_cast<int>((r + c * 5) % 5) - 2; }
float weight_at(std::int64_t r) { return r % 2 == 0 ? 0.5f : -2.0f; }

void fill_with_integers(const GatedActivationCase& test) {
  for (std::int64_t r = 0; r < test.problem.rows; ++r) {
    static_cast<float*>(test.weights.data())[r] = weight_at(r);
    for (std::int64_t c = 0; c < test.problem.cols; ++c) {
      set(test.gate(), r, c, static_cast<float>(gate_at(r, c)));
      set(test.up(), r, c, static_cast<float>(up_at(r, c)));
      set(test.dy(), r, c, static_cast<float>(dy_at(r, c)));
    }
  }
}

void expect_exact(const GatedActivationCase& test, const std::string& path) {
  const std::string repeat = path + ": octet check " + describe(test.problem);
  for (std::int64_t r = 0; r < test.problem.rows; ++r) {
    const float p = test.problem.row_weight ? weight_at(r) : 1;
    int d_weight = 0;
    for (std::int64_t c = 0; c < test.problem.cols; ++c) {
      const int positive = std::max(gate_at(r, c), 0);
      const int act = positive * positive;
      const int up = up_at(r, c);
      const int dy = dy_at(r, c);
      ASSERT_EQ(at(test.y(), r, c), static_cast<float>(act * up) * p) << repeat;
      ASSERT_EQ(at(test.dgate(), r, c), static_cast<float>(dy * up * 2 * positive) * p) << repeat;
      ASSERT_EQ(at(test.dup(), r, c), static_cast<float>(dy * act) * p) << repeat;
      d_weight += dy * act * up;
    }
    if (test.problem.row_weight) {
      ASSERT_EQ(test.d_weight(r), static_cast<float>(d_weight)) << repeat << ", row " << r;
    }
  }
}

// The gaps after the rows must be unchanged.
void expect_gaps_untouched(const TensorView& matrix, std::int64_t gap) {
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    const auto* end = static_cast<const unsigned char*>(matrix.data) +
                      (r * matrix.strides[0] + matrix.cols()) * size_bytes(matrix.dtype);
    for (std::int64_t i = 0; i < gap * size_bytes(matrix.dtype); ++i) ASSERT_EQ(end[i], 0xA5);
  }
}

TEST(GatedActivationExact, ReluSquaredOfIntegersOnEveryPath) {
  struct Shape {
    std::int64_t rows;
    std::int64_t cols;
  };
  for (const Shape shape :
       {Shape{1, 1}, {1, 15}, {3, 33}, {5, 128}, {2, 513}, {511, 31}, {2, 4096}}) {
    for (const Dtype dtype : kFloats) {
      for (const Lie lie : {Lie::as_halves, Lie::apart}) {
        const GatedActivationProblem problem{shape.rows, shape.cols, dtype,
                                             GateActivation::relu_squared, lie == Lie::apart};
        const GatedActivationCase reference(problem, lie, 3);
        fill_with_integers(reference);
        reference.run_both("cpu_reference");
        expect_exact(reference, "cpu_reference");
        for (const InstructionSet instructions : instruction_sets()) {
          const GatedActivationCase test(problem, lie, 3);
          fill_with_integers(test);
          test.run_both(instructions);
          expect_exact(test, name(instructions));
          expect_gaps_untouched(test.y(), 3);
          expect_gaps_untouched(test.dup(), 3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace octet
