// Test data from a counter-based generator: element i of a stream is a pure function of seed,
// stream and i, in integer and plain IEEE f32 arithmetic, so CPU and GPU make the same bits in any
// order.
//
// Numbers come in groups of 64, made of 16 counters of four words each: number i is word
// (i / 16) % 4 of counter i / 64 * 16 + i % 16, so that a vector of counters fills whole vectors.
#pragma once

#include "check/data/normal.hpp"
#include "check/data/philox.hpp"

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

// What the numbers of a stream are for; each use has words of its own.
enum class RandomUse : std::uint32_t { value = 0, block_exponent = 1, sample = 2 };

OCTET_HOST_DEVICE constexpr PhiloxBlock random_words(RandomStream stream, RandomUse use,
                                                     std::uint64_t counter) {
  return philox(
      {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
        stream.stream, static_cast<std::uint32_t>(use)}},
      {{static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)}});
}

// A number in [0, bound).
OCTET_HOST_DEVICE constexpr std::uint32_t random_below(RandomStream stream, RandomUse use,
                                                       std::uint64_t counter, std::uint32_t bound) {
  const std::uint64_t word = random_words(stream, use, counter).word[0];
  return static_cast<std::uint32_t>((word * bound) >> 32);
}

// The power of two that Distribution::skewed gives to a block, numbered row by row.
OCTET_HOST_DEVICE constexpr float skew(RandomStream stream, std::uint64_t block) {
  const std::uint32_t u = random_below(stream, RandomUse::block_exponent, block, 7);
  return f32_from_bits((u + 124u) << 23);  // 2^(u - 3)
}

// Element `index` of N(0, 1), within +-6.
float random_normal(RandomStream stream, std::uint64_t index);
// Fills a matrix (f32, f16, bf16; contiguous columns) where it lies; element (r, c) of a [R, C]
// matrix is number r * C + c whatever the device, the strides and the threads, which are the CPU's.
void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream,
                 int threads);

}  // namespace octet
