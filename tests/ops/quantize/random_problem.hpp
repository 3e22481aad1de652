// Problems and data drawn at random, for the tests that compare implementations of quantize.
#pragma once

#include "core/numeric.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <limits>
#include <optional>

namespace octet {

// One copy or both, with blocks drawn from those given; nullopt stands for no copy.
template <std::size_t N>
QuantizeProblem random_problem(const std::optional<BlockShape> (&blocks)[N], Random& random) {
  constexpr std::int64_t kExtents[] = {1,   2,   3,   7,   8,   9,   15,  16,  17,
                                       31,  33,  64,  65,  120, 127, 128, 129, 136,
                                       191, 255, 256, 257, 300, 384, 500};
  QuantizeProblem problem{.rows = any_of(kExtents, random),
                          .cols = any_of(kExtents, random),
                          .input_dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random),
                          .format = any_of({Dtype::e4m3, Dtype::e5m2}, random)};
  do {
    problem.block = any_of(blocks, random);
    problem.transposed_block = any_of(blocks, random);
  } while (!problem.block && !problem.transposed_block);
  problem.amax_floor = any_of({0.0f, 0.0f, 1e-4f, 1e-39f, 10.0f}, random);
  problem.pow2_scales = random() % 3 == 0;
  return problem;
}

enum class Data {
  normal,
  tiny,
  huge,
  zeros,
  any_bits,
  one_outlier,
  some_non_finite,
  non_finite_lines,  // whole rows and columns
};

// One element of data whose position does not matter.
inline float random_value(Data data, Random& random) {
  std::normal_distribution<float> normal;
  switch (data) {
    case Data::tiny: return normal(random) * 1e-38f;
    case Data::huge: return normal(random) * 1e37f;
    case Data::zeros: return random() % 2 == 0 ? 0.0f : -0.0f;
    case Data::any_bits: return f32_from_bits(static_cast<std::uint32_t>(random()));
    case Data::some_non_finite:
      if (random() % 500 == 0) return std::numeric_limits<float>::quiet_NaN();
      if (random() % 500 == 0) return std::numeric_limits<float>::infinity();
      if (random() % 500 == 0) return -std::numeric_limits<float>::infinity();
      return normal(random);
    default: return normal(random);
  }
}

}  // namespace octet
