// One 128x128 tile of a quantisation, as the SIMD kernels take it: one read, one or two copies.
#pragma once

#include <octet/dtype.hpp>

#include <cstdint>

namespace octet {

// Which elements of a tile share a scale, in the coordinates of the input.
enum class SharedScale { row, column, tile };

// Where one copy of the tile goes.
struct TileCopy {
  bool wanted = false;
  SharedScale shared = SharedScale::row;
  std::uint8_t* values = nullptr;  // first byte of the tile in this copy
  std::int64_t pitch = 0;
  float* scales = nullptr;      // first scale of the tile
  std::int64_t scale_step = 0;  // elements from one scale of the tile to the next
  bool stream = false;          // past the caches: rows start on 64-byte boundaries
};

struct Tile {
  const void* input = nullptr;  // first element of the tile
  std::int64_t pitch = 0;       // in elements
  int rows = 0;                 // 1 ... 128
  int cols = 0;                 // 1 ... 128
  const void* next = nullptr;   // the tile that follows in the same rows, to be prefetched; or null
  float amax_floor = 0;
  bool pow2_scales = false;
  TileCopy out;
  TileCopy transposed;
};

using QuantizeTile = void (*)(const Tile& tile);

// The kernels of one instruction set.
struct QuantizeKernels {
  QuantizeTile f32[2];  // e4m3, e5m2
  QuantizeTile f16[2];
  QuantizeTile bf16[2];
};

inline QuantizeTile tile_kernel(const QuantizeKernels& kernels, Dtype input, Dtype format) {
  const int column = format == Dtype::e5m2 ? 1 : 0;
  switch (input) {
    case Dtype::f16: return kernels.f16[column];
    case Dtype::bf16: return kernels.bf16[column];
    default: return kernels.f32[column];
  }
}

}  // namespace octet
