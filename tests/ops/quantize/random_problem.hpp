// Problems drawn at random, for the tests that compare implementations of quantize.
#pragma once

#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <optional>

namespace octet {

// One copy or both, in blocks of those given; nullopt among them stands for no copy.
template <std::size_t N>
QuantizeProblem random_problem(const std::optional<BlockShape> (&blocks)[N], Random& random) {
  constexpr std::int64_t kExtents[] = {1,   2,   3,   7,   8,   9,   15,  16,  17,
                                       31,  33,  64,  65,  120, 127, 128, 129, 136,
                                       191, 255, 256, 257, 300, 384, 500};
  QuantizeProblem problem;
  problem.rows = any_of(kExtents, random);
  problem.cols = any_of(kExtents, random);
  problem.input = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random);
  problem.format = any_of({Dtype::e4m3, Dtype::e5m2}, random);
  do {
    problem.block = any_of(blocks, random);
    problem.transposed_block = any_of(blocks, random);
  } while (!problem.block && !problem.transposed_block);
  problem.amax_floor = any_of({0.0f, 0.0f, 1e-4f, 1e-39f, 10.0f}, random);
  problem.pow2_scales = random() % 3 == 0;
  return problem;
}

}  // namespace octet
