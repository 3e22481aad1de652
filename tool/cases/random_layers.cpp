#include "tool/cases/random_layers.hpp"

#include "tool/cases/suites.hpp"

#include "check/data/random.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {
namespace {

constexpr std::uint32_t kLayerStream = 0x6C;  // tells the draw from those of test data
constexpr std::uint32_t kLog2OfMostRows = 15;
constexpr std::int64_t kMostParts = 8;
constexpr std::uint32_t kOneOfSoManyIsOdd = 5;
constexpr std::uint32_t kOddLosses = 64;  // 1, 3, ... 127

// The random words of one layer, one after the other: at most eight.
class Words {
 public:
  Words(std::uint64_t seed, std::int64_t number)
      : stream_{seed, kLayerStream}, counter_(2 * static_cast<std::uint64_t>(number)) {}

  std::uint32_t next() {
    const PhiloxBlock block = random_words(stream_, RandomUse::sample, counter_ + taken_ / 4);
    return block.word[taken_++ % 4];
  }

  // A number in [0, bound).
  std::int64_t below(std::size_t bound) {
    return static_cast<std::int64_t>((std::uint64_t{next()} * bound) >> 32);
  }

  std::int64_t one_of(const std::vector<std::int64_t>& values) {
    return values[static_cast<std::size_t>(below(values.size()))];
  }

 private:
  RandomStream stream_;
  std::uint64_t counter_;
  std::uint64_t taken_ = 0;
};

// 2^(15 u) rounded, u in [0, 1). Square roots and products are rounded alike everywhere, which the
// exp2 of a C library need not be.
std::int64_t log_uniform_rows(std::uint32_t word) {
  const std::uint64_t log2_rows = std::uint64_t{kLog2OfMostRows} * word;  // in units of 2^-32
  double rows = std::ldexp(1.0, static_cast<int>(log2_rows >> 32));
  double root = 2;  // 2^(1/2), 2^(1/4), ...
  for (int bit = 31; bit >= 0; --bit) {
    root = std::sqrt(root);
    if ((log2_rows >> bit & 1) != 0) rows *= root;
  }
  return static_cast<std::int64_t>(rows + 0.5);
}

// A size, or the share of one of up to eight ranks that divide it.
std::int64_t size_or_share(const std::vector<std::int64_t>& sizes, Words& words) {
  const std::int64_t size = words.one_of(sizes);
  std::vector<std::int64_t> parts;
  for (std::int64_t count = 1; count <= kMostParts; ++count) {
    if (size % count == 0) parts.push_back(count);
  }
  return size / words.one_of(parts);
}

}  // namespace

LayerCase random_layer(const std::vector<std::int64_t>& sizes, std::uint64_t seed,
                       std::int64_t number) {
  Words words(seed, number);
  LayerCase layer;
  layer.m = log_uniform_rows(words.next());
  layer.n = size_or_share(sizes, words);
  layer.k = size_or_share(sizes, words);
  if (words.below(kOneOfSoManyIsOdd) == 0) {
    if (layer.m % 2 == 0) --layer.m;
    layer.n -= 2 * words.below(kOddLosses) + 1;
    layer.k -= 2 * words.below(kOddLosses) + 1;
  }
  layer.test_id = std::to_string(number);
  layer.model = kRandomGroups[layer.m > kFewRows ? 1 : 0];
  layer.op = fmt::format("{}/{}", seed, number);
  return layer;
}

std::vector<LayerCase> random_layers(std::uint64_t seed, std::int64_t count) {
  const std::vector<std::int64_t> sizes = load_random_sizes();
  std::vector<LayerCase> layers;
  for (std::int64_t number = 1; number <= count; ++number) {
    layers.push_back(random_layer(sizes, seed, number));
  }
  return layers;
}

}  // namespace octet::tool
