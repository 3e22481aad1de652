// Values far from 0, and inputs that are not finite.
#include "ops/gated_activation/case.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr const char* kBackends[] = {"cpu_simd", "cpu_reference"};

TEST(GatedActivationValues, HaveTheRightLimits) {
  constexpr float kFar[] = {100, 1e4f, 1e15f, 1e25f, 3e38f};
  for (const GateActivation activation :
       {GateActivation::silu, GateActivation::gelu_tanh, GateActivation::gelu_erf}) {
    const GatedActivationCase test({1, 10, Dtype::f32, activation});
    for (std::int64_t c = 0; c < 10; ++c) {
      set(test.gate(), 0, c, c % 2 == 0 ? kFar[c / 2] : -kFar[c / 2]);
      set(test.up(), 0, c, 1);
      set(test.dy(), 0, c, 1);
    }
    for (const char* backend : kBackends) {
      test.run_both(backend);
      for (std::int64_t c = 0; c < 10; ++c) {
        const float g = at(test.gate(), 0, c);
        EXPECT_NEAR(at(test.y(), 0, c), g > 0 ? g : 0, 1e-37) << name(activation) << " of " << g;
        EXPECT_NEAR(at(test.dup(), 0, c), g > 0 ? g : 0, 1e-37) << name(activation) << " of " << g;
        EXPECT_NEAR(at(test.dgate(), 0, c), g > 0 ? 1 : 0, 1e-37)
            << name(activation) << " of " << g;
      }
    }
  }
}

TEST(GatedActivationValues, ReluSquaredKeepsNaNAndOverflows) {
  const GatedActivationCase test({1, 4, Dtype::f32, GateActivation::relu_squared});
  constexpr float kGates[] = {kNaN, -kInfinity, kInfinity, 1e30f};
  for (std::int64_t c = 0; c < 4; ++c) {
    set(test.gate(), 0, c, kGates[c]);
    set(test.up(), 0, c, 1);
    set(test.dy(), 0, c, 1);
  }
  for (const char* backend : kBackends) {
    test.run_both(backend);
    EXPECT_TRUE(std::isnan(at(test.y(), 0, 0)) && std::isnan(at(test.dgate(), 0, 0))) << backend;
    EXPECT_EQ(at(test.y(), 0, 1), 0) << backend;
    EXPECT_EQ(at(test.dgate(), 0, 1), 0) << backend;
    EXPECT_EQ(at(test.y(), 0, 2), kInfinity) << backend;
    EXPECT_EQ(at(test.y(), 0, 3), kInfinity) << backend;
    EXPECT_EQ(at(test.dgate(), 0, 3), 2e30f) << backend;
  }
}

// The outputs that depend on a non-finite element.
struct Reached {
  std::int64_t row;
  std::int64_t col;  // -1: the whole row
  bool y, dgate, dup, d_weight;
};

void expect_reached(const TensorView& given, const TensorView& finite, const char* tensor,
                    const auto& reaches) {
  for (std::int64_t r = 0; r < given.rows(); ++r) {
    for (std::int64_t c = 0; c < given.cols(); ++c) {
      if (reaches(r, c)) {
        EXPECT_FALSE(std::isfinite(at(given, r, c))) << tensor << " at " << r << ", " << c;
      } else {
        EXPECT_EQ(bits_of(at(given, r, c)), bits_of(at(finite, r, c)))
            << tensor << " at " << r << ", " << c;
      }
    }
  }
}

TEST(GatedActivationValues, NonFiniteValuesReachOnlyWhatDependsOnThem) {
  constexpr Reached kReached[] = {
      {0, 37, true, true, true, true},   // gate is NaN
      {1, 99, true, true, false, true},  // up is NaN
      {2, 5, false, true, true, true},   // dy is infinite
      {3, -1, true, true, true, false},  // the row's weight is NaN
      {4, 64, true, true, false, true},  // up is infinite
  };
  for (const Dtype dtype : kFloats) {
    for (const GateActivation activation : kActivations) {
      for (const char* backend : kBackends) {
        const GatedActivationProblem problem{6, 100, dtype, activation, true};
        const GatedActivationCase finite(problem, Lie::as_halves);
        const GatedActivationCase test(problem, Lie::as_halves);
        for (const GatedActivationCase* each : {&finite, &test}) {
          each->fill(3);
          for (const Reached& reached : kReached) {
            // So that no product below has a factor 0.
            if (reached.col >= 0) set(each->gate(), reached.row, reached.col, 1.5f);
          }
        }
        std::memset(static_cast<char*>(test.gate().data) + 37 * size_bytes(dtype), 0xFF,
                    static_cast<std::size_t>(size_bytes(dtype)));  // a NaN with all bits set
        set(test.up(), 1, 99, kNaN);
        set(test.dy(), 2, 5, -kInfinity);
        static_cast<float*>(test.weights.data())[3] = f32_from_bits(0x7FFFFFFF);  // rounds up to 0
        set(test.up(), 4, 64, kInfinity);
        finite.run_both(backend);
        test.run_both(backend);
        const auto reaches = [&](bool Reached::*tensor) {
          return [&kReached, tensor](std::int64_t r, std::int64_t c) {
            for (const Reached& reached : kReached) {
              if (reached.row == r && (reached.col == c || reached.col < 0)) return reached.*tensor;
            }
            return false;
          };
        };
        SCOPED_TRACE(std::string(backend) + ": " + describe(problem));
        expect_reached(test.y(), finite.y(), "y", reaches(&Reached::y));
        expect_reached(test.dgate(), finite.dgate(), "dgate", reaches(&Reached::dgate));
        expect_reached(test.dup(), finite.dup(), "dup", reaches(&Reached::dup));
        const auto column = [](const Tensor& vector) {
          return make_matrix(vector.data(), Dtype::f32, 6, 1, 1);
        };
        expect_reached(
            column(test.d_weights), column(finite.d_weights), "d_row_weight",
            [&](std::int64_t r, std::int64_t) { return r != 5 && kReached[r].d_weight; });
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace octet
