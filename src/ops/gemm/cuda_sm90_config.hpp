// The configurations of the Hopper product: plain numbers that print themselves, and what follows
// from them, so that tests without a GPU can ask.
#pragma once

#include <octet/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace octet {

enum class Promotion {
  product_of_scales,  // 1x128 . 128x128: acc = fma(slice, sa * sb, acc)
  one_by_one,         // 1x128 . 1x128:   acc = fma(slice * sa, sb, acc)
};

struct Sm90GemmConfig {
  int tile_m = 256;
  int tile_n = 128;
  int stages = 4;
  Promotion promotion = Promotion::product_of_scales;
  Dtype a = Dtype::e4m3;
  Dtype b = Dtype::e4m3;

  friend constexpr bool operator==(const Sm90GemmConfig&, const Sm90GemmConfig&) = default;
};

inline constexpr int kSliceBytes = 128;  // of the contraction: one stage
inline constexpr int kWaveM = 64;        // rows and columns of one wgmma
inline constexpr int kWaveN = 128;
inline constexpr int kConsumers = 2;  // warpgroups that multiply
inline constexpr int kThreads = 128 * (kConsumers + 1);
inline constexpr int kStagingBytes = 2048;  // per warp: 16 rows of 128 bytes
inline constexpr int kSharedLimit = 232448;

// How the two consumers share a tile, and the waves each has.
constexpr bool consumers_split_m(const Sm90GemmConfig& c) { return c.tile_m > kWaveM; }
constexpr int consumer_rows(const Sm90GemmConfig& c) {
  return consumers_split_m(c) ? c.tile_m / kConsumers : c.tile_m;
}
constexpr int consumer_cols(const Sm90GemmConfig& c) {
  return consumers_split_m(c) ? c.tile_n : c.tile_n / kConsumers;
}
constexpr int waves_m(const Sm90GemmConfig& c) { return consumer_rows(c) / kWaveM; }
constexpr int waves_n(const Sm90GemmConfig& c) { return consumer_cols(c) / kWaveN; }

// Floats of one stage's scales of b: one per column, or four slices of each 128-column block.
constexpr int b_scale_floats(const Sm90GemmConfig& c) {
  return c.promotion == Promotion::one_by_one ? c.tile_n : c.tile_n / kWaveN * 4;
}

constexpr int stage_bytes(const Sm90GemmConfig& c) {
  return (c.tile_m + c.tile_n) * kSliceBytes + (c.tile_m + b_scale_floats(c)) * 4;
}

// "256x128x4"
inline std::string name(const Sm90GemmConfig& c) {
  return std::to_string(c.tile_m) + "x" + std::to_string(c.tile_n) + "x" + std::to_string(c.stages);
}

}  // namespace octet
