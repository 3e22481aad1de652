// Test data from a counter-based generator: element i of a stream is a pure function of seed,
// stream and i, in integer and plain IEEE f32 arithmetic, so CPU and GPU make the same bits in any
// order.
//
// Numbers come in groups of 64, made of 16 counters of four words each: number i is word
// (i / 16) % 4 of counter i / 64 * 16 + i % 16, so that a vector of counters fills whole vectors.
#pragma once

#include "core/numeric.hpp"

#include <octet/tensor.hpp>

#include <cstdint>

namespace octet {

// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
// ten rounds of multiplications and exclusive ors turn a counter and a key into four random words.
struct PhiloxBlock {
  std::uint32_t word[4];
};

struct PhiloxKey {
  std::uint32_t word[2];
};

OCTET_HOST_DEVICE constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(right >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(right),
                static_cast<std::uint32_t>(left >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(left)}};
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return counter;
}

// A sum and a product that the compiler may not contract to an fma: intrinsics on the device,
// -ffp-contract=off on the host.
#ifdef __CUDA_ARCH__
__device__ inline float rounded_sum(float x, float y) { return __fadd_rn(x, y); }
__device__ inline float rounded_product(float x, float y) { return __fmul_rn(x, y); }
#else
constexpr float rounded_sum(float x, float y) { return x + y; }
constexpr float rounded_product(float x, float y) { return x * y; }
#endif

// c[0] + c[1] x + ... by Horner's rule.
template <int Count>
OCTET_HOST_DEVICE constexpr float polynomial(const float (&c)[Count], float x) {
  float sum = c[Count - 1];
  for (int i = Count - 2; i >= 0; --i) sum = rounded_sum(rounded_product(sum, x), c[i]);
  return sum;
}

// Natural logarithm of a positive normal number, within 3e-6.
OCTET_HOST_DEVICE constexpr float plain_log(float x) {
  // log(1 + f) = f + f^2 c(f) for 1 + f in [sqrt(1/2), sqrt(2)).
  constexpr float c[] = {-0.49987507f, 0.3326236f, -0.25458879f, 0.22070738f, -0.14106189f};
  constexpr std::int32_t kSqrtHalf = 0x3F3504F3;
  const auto bits = static_cast<std::int32_t>(bits_of(x));
  const std::int32_t exponent = (bits - kSqrtHalf) >> 23;
  const float f =
      rounded_sum(f32_from_bits(static_cast<std::uint32_t>(bits - exponent * (1 << 23))), -1.0f);
  const float tail = rounded_product(rounded_product(f, f), polynomial(c, f));
  const float whole = rounded_product(static_cast<float>(exponent), 0.69314718f);
  return rounded_sum(whole, rounded_sum(f, tail));
}

// Square root of a number >= 0, within 1e-5 of it: Newton's steps for 1 / sqrt(x).
OCTET_HOST_DEVICE constexpr float plain_sqrt(float x) {
  float y = f32_from_bits(0x5F375A86u - (bits_of(x) >> 1));
  const float half = rounded_product(x, -0.5f);
  for (int step = 0; step < 2; ++step) {
    y = rounded_product(y, rounded_sum(1.5f, rounded_product(rounded_product(half, y), y)));
  }
  return rounded_product(x, y);
}

// 32 random bits to N(0, 1), in integer arithmetic and f32 sums and products that are rounded one
// by one, so that every device and instruction set makes the same bits.
//
//   sign: bit 31;  p2 = (the other bits + 4.5) * 2^-31, twice the tail probability, in (0, 1]
//   w = -2 log(p2),  s = sqrt(w),  z = w * polynomial(s), within 1e-4 of the quantile, |z| < 6
//
// The offset 4.5 puts the furthest quantile at 5.995. Near p2 = 1 the quantile is proportional to
// w, hence the factor in front of the polynomial, which is a least-squares fit on [0, 6.33].
OCTET_HOST_DEVICE constexpr float normal_from_bits(std::uint32_t bits) {
  constexpr float kCentre = 3.1609718f;
  constexpr float c[] = {0.27104531f,     -0.066515586f,   0.014719882f,    -0.0028109073f,
                         0.00045469646f,  -6.1270691e-05f, -1.6965344e-05f, 1.9946742e-05f,
                         -6.1818787e-06f, 6.4671624e-07f};
  const auto integer = static_cast<float>(static_cast<std::int32_t>(bits & 0x7FFFFFFFu));
  const float p2 = rounded_product(rounded_sum(integer, 4.5f), f32_from_bits((127u - 31u) << 23));
  const float w = rounded_product(plain_log(p2), -2.0f);
  const float z = rounded_product(w, polynomial(c, rounded_sum(plain_sqrt(w), -kCentre)));
  return f32_from_bits(bits_of(z) ^ (bits & 0x80000000u));
}

enum class Distribution {
  normal,      // N(0, 1)
  skewed,      // N(0, 1) times 2^u per 128x128 block, u drawn from -3..3
  one_signed,  // |N(0, 1)|
  outliers,    // N(0, 1), and one drawn number of every 64 times 100
};

struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // tells tensors of one seed apart
};

// The purpose of a stream's numbers; each purpose has random words of its own.
enum class RandomUse : std::uint32_t { value = 0, block_exponent = 1, sample = 2, outlier = 3 };

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

inline constexpr std::uint64_t kOutlierRun = 64;

// What Distribution::outliers multiplies number `index` with.
OCTET_HOST_DEVICE constexpr float outlier(RandomStream stream, std::uint64_t index) {
  const std::uint32_t drawn =
      random_below(stream, RandomUse::outlier, index / kOutlierRun, std::uint32_t{kOutlierRun});
  return drawn == index % kOutlierRun ? 100.0f : 1.0f;
}

// Element `index` of N(0, 1), within +-6.
float random_normal(RandomStream stream, std::uint64_t index);
// Fills a matrix (f32, f16, bf16; contiguous columns) on its own device. Element (r, c) of an
// [R, C] matrix is number r * C + c, independent of the device, the strides and `threads`, which
// applies to the CPU.
void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream,
                 int threads);

}  // namespace octet
