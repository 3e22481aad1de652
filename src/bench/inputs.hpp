// The inputs of a layer that is timed: as many sets as pass twice the last-level cache, so that an
// iteration never finds what the one before left there. One set where it is as big by itself.
#pragma once

#include "check/random.hpp"

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
};

// The number of input sets of `set_bytes` each; `uses` calls need no more than that many.
std::int64_t input_set_count(std::size_t set_bytes, std::size_t cache_bytes, std::int64_t uses);

struct LayerShape {
  std::int64_t m = 0;  // tokens
  std::int64_t n = 0;  // output features
  std::int64_t k = 0;  // input features
};

struct LayerInputs {
  Tensor x;   // [M, K]
  Tensor w;   // [N, K]
  Tensor dy;  // [M, N]
};

// Random data of the seed, the same in every set.
std::vector<LayerInputs> make_layer_inputs(const LayerShape& shape, Dtype dtype,
                                           const WorkloadOptions& options, std::int64_t uses);

}  // namespace octet::bench
