// The product every gate compares with: value[m, n] = sum over k of a[m, k] * b[n, k] in f64, of
// matrices as they are (f32, f16, bf16) or of quantised ones as their values times their scales, in
// any strides. Shares no code with src/ops, and with src/cpu only the thread pool.
//
// The result is handed over tile by tile and never stored as a whole: a group of rows of a is
// decoded once, and each thread multiplies it by 128 rows of b at a time.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace octet {

inline constexpr int kTile = 128;  // rows and columns of a tile of the result

struct ReferenceTile {
  std::int64_t first_row = 0;  // in the list of rows
  std::int64_t first_col = 0;
  int rows = 0;
  int cols = 0;
  const double* value = nullptr;     // [rows][kTile]
  const float* magnitude = nullptr;  // [rows][kTile], sum |a * b|; null if not requested
};

struct ReferenceProduct {
  QuantizedView a;                   // [M, K]
  QuantizedView b;                   // [N, K]
  std::vector<std::int64_t> rows{};  // of a, in order; empty: all of them
  bool magnitudes = true;
  int threads = 0;  // 0: every core
};

// Calls use(tile) for every 128x128 tile of the product, from several threads at once.
void for_each_tile(const ReferenceProduct& product,
                   const std::function<void(const ReferenceTile&)>& use);
// The same for operands on a CUDA device, with all rows listed: the device multiplies a batch of
// tiles, and the host's threads use them. Needs 48 MiB of device memory and as much on the host.
void for_each_tile_on_cuda(const ReferenceProduct& product, const std::vector<std::int64_t>& rows,
                           int threads, const std::function<void(const ReferenceTile&)>& use);

}  // namespace octet
