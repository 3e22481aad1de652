// Test data from a counter-based generator: element i of a stream is a pure function of seed,
// stream and i, in integer and plain IEEE f32 arithmetic, so CPU and GPU make the same bits in any
// order.
#pragma once

#include "core/numeric.hpp"

#include <octet/tensor.hpp>

#include <cstdint>

namespace octet {

enum class Distribution {
  normal,      // N(0, 1)
  skewed,      // N(0, 1) times 2^u per 128x128 block, u drawn from -3..3
  one_signed,  // |N(0, 1)|
};

struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // tells tensors of one seed apart
};

// Element `index` of N(0, 1), within +-6.
float random_normal(RandomStream stream, std::uint64_t index);
// Fills a matrix (f32, f16, bf16; contiguous columns) on the CPU; element (r, c) of a [R, C] matrix
// is number r * C + c whatever the strides and threads.
void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream,
                 int threads);

}  // namespace octet
