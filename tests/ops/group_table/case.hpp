// Sizes of groups, as the tests of tables share them.
#pragma once

#include "ops/group_table/problem.hpp"

#include <octet/octet.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace octet {

using Numbers = std::vector<std::int64_t>;

inline Numbers ends_of(const Numbers& sizes) {
  Numbers ends(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return ends;
}

inline Numbers offsets_of(const Numbers& sizes) {
  Numbers offsets = ends_of(sizes);
  offsets.insert(offsets.begin(), 0);
  return offsets;
}

struct Case {
  std::int64_t rows;
  Numbers sizes;
};

inline std::vector<Case> cases() {
  std::vector<Case> cases{
      {1, {0}},
      {1, {1}},
      {385, {0, 1, 127, 128, 129}},
      {1000, {0, 0, 0}},
      {5000, {0, 5000, 0, 0}},
      {4096, Numbers(8, 512)},
      {2049, {2048, 1}},
      {9000, {2047, 2048, 2049, 1}},
      {1024, Numbers(1024, 1)},
      {70000, {257, 0, 255, 65000, 3}},
  };
  std::mt19937_64 random(20);
  for (int i = 0; i < 200; ++i) {
    Case made{0, Numbers(1 + random() % 40)};
    const std::uint64_t most = std::uint64_t{1} << random() % 13;
    for (std::int64_t& size : made.sizes) {
      size = random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % most);
    }
    const std::int64_t sum = std::accumulate(made.sizes.begin(), made.sizes.end(), std::int64_t{0});
    made.rows = std::max<std::int64_t>(1, sum + static_cast<std::int64_t>(random() % 3) * 113);
    cases.push_back(made);
  }
  return cases;
}

// Numbers that do not fit as often as not: negative, falling, huge.
inline Numbers wild_numbers(std::size_t count, std::int64_t rows, std::mt19937_64& random) {
  Numbers numbers(count);
  const std::int64_t choices[] = {0, 1, -1, rows, rows + 1, rows / 2, 127, 129};
  for (std::int64_t& number : numbers) {
    const std::uint64_t kind = random() % 16;
    number = kind < 8 ? choices[kind]
             : kind < 15
                 ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows + 1))
                 : static_cast<std::int64_t>(random());
  }
  return numbers;
}

// A tensor of i32 or i64 on the CPU.
inline Tensor tensor_of(const Numbers& numbers, Dtype dtype) {
  Tensor tensor(dtype, {static_cast<std::int64_t>(numbers.size())});
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == Dtype::i64) {
      static_cast<std::int64_t*>(tensor.data())[i] = numbers[i];
    } else {
      static_cast<std::int32_t*>(tensor.data())[i] = static_cast<std::int32_t>(numbers[i]);
    }
  }
  return tensor;
}

}  // namespace octet
