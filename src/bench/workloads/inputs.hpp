// The inputs of a layer that is timed, on its device. memory.hpp says how many sets of them are
// rotated, so that an iteration never finds in the cache what the one before left there.
#pragma once

#include "check/data/random.hpp"

#include <octet/buffer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace octet::bench {

struct WorkloadOptions {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 1;
  int threads = 0;               // as PlanOptions
  std::string gemm_backend;      // forced, or empty
  std::string quantize_backend;  // forced, or empty
  std::string backend{};         // of an operator that memory bounds: forced, or empty
};

struct LayerShape {
  std::int64_t m = 0;  // tokens
  std::int64_t n = 0;  // output features
  std::int64_t k = 0;  // input features
};

struct LayerInputs {
  Tensor x;   // [M, K]
  Tensor w;   // [N, K]
  Tensor dy;  // [M, N]

  static std::size_t bytes(const LayerShape& shape, Dtype dtype);
};

// Random data of the seed, made where the matrix lives; done when it returns.
void fill_input(const TensorView& matrix, const WorkloadOptions& options, std::uint32_t stream);

// `count` sets with the same random numbers in each.
std::vector<LayerInputs> make_layer_inputs(const LayerShape& shape, Dtype dtype, Device device,
                                           const WorkloadOptions& options, std::int64_t count);

}  // namespace octet::bench
