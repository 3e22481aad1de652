// The data of the layer's tests.
#pragma once

#include "core/numeric.hpp"

#include <octet/octet.hpp>

#include <random>

namespace octet::testing {

inline Tensor random_tensor(std::int64_t rows, std::int64_t cols, unsigned seed) {
  Tensor tensor(Dtype::bf16, {rows, cols});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    store_f32(tensor.data(), i, Dtype::bf16, normal(random));
  }
  return tensor;
}

}  // namespace octet::testing
