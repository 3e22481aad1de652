// The precisions that octet advise compares, as data: the options of `octet bench gemm` that give
// one, and what its layer casts and saves, from which a cost can be calculated.
#pragma once

#include <octet/quantized.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace octet::tool {

struct LayerShape {
  std::int64_t m = 0;  // tokens
  std::int64_t n = 0;  // output features
  std::int64_t k = 0;  // input features

  std::string text() const;           // "8192x6144x4096"
  double forward_operations() const;  // 2 MNK; backward has twice as many
  bool operator==(const LayerShape&) const = default;
};

// Where a figure comes from.
enum class Source { none, measured, published, calculated };
const char* name(Source source);  // "measured here"; empty for none

struct Figure {
  double value = std::numeric_limits<double>::quiet_NaN();
  Source source = Source::none;

  bool known() const { return source != Source::none; }
};

// What one step of a layer takes.
struct LayerCost {
  Figure forward_seconds;
  Figure backward_seconds;
  Figure cast_seconds;  // of both, within them
  Figure snr_db;        // the least of y, dx and dw, against the product of unrounded inputs
};

struct Precision {
  const char* name;                  // "fp8 rowwise"
  std::vector<std::string> options;  // of octet bench gemm: {"--dtype", "fp8", ...}
  // The least of y, dx and dw of N(0, 1) in e4m3, of 1024x1024x2048 on the CPU (docs/numerics.md): an error of formats
  // and scales, which hardly depends on the shape.
  double normal_snr_db = 0;
  // How often a cast reads its input: twice where a scale needs an amax of the whole row or tensor;
  // 0: nothing is cast.
  int reads = 0;
  BlockShape x_t = kUnscaled;  // blocks of what forward saves; unscaled: x itself, in 16 bits
  BlockShape w_t = kUnscaled;
  bool slices_scaled_twice = false;  // the weight gradient is 1x128 . 1x128
};

// bf16 first, with which the others are compared.
const std::vector<Precision>& precisions();

// Bytes that forward keeps for backward, beside the weights themselves.
double saved_bytes(const Precision& precision, const LayerShape& shape);

// Operations over rates and bytes over bandwidth, for a GPU whose rates have been measured; without
// figures for others. `gpu`: "NVIDIA H200".
LayerCost calculated_cost(const Precision& precision, const LayerShape& shape,
                          const std::string& gpu);

}  // namespace octet::tool
