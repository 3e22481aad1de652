// The SIMD kernels of quantize over a 128x128 tile (one read, one or two copies), and the operator
// with its instruction set given: what kQuantizeCpuSimd runs with the best set of the machine, and
// what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/quantize/mx_scale.hpp"

#include <octet/ops/quantize.hpp>

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
  const float* forward =
      nullptr;          // factors of the tile's rows or columns, known; null: to be found
  bool stream = false;  // past the caches: rows start on 64-byte boundaries
  // Of a transposed copy: 128 columns are written, with zeros behind the rows of the tile.
  bool fills_columns = false;
};

struct Tile {
  const void* input = nullptr;  // first element of the tile, in row 0 if rows are gathered
  std::int64_t pitch = 0;       // in elements
  const std::int32_t* gathered = nullptr;  // row r is input row gathered[r] / slots; null: row r
  std::int32_t slots = 1;
  int rows = 0;                // 1 ... 128
  int cols = 0;                // 1 ... 128
  const void* next = nullptr;  // the tile that follows in the same rows, to be prefetched; or null
  float amax_floor = 0;
  bool pow2_scales = false;
  const MxRule* mx_rule = nullptr;  // mx blocks are folded into those of the copies; or null
  bool saturates = false;           // factors are given: values may be beyond the limit
  TileCopy out;
  TileCopy transposed;
};

using QuantizeTile = void (*)(const Tile& tile);

// The largest finite magnitudes of the rows and columns of a tile; arrays of 128.
using FindTileAmax = void (*)(const Tile& tile, float* rows, float* columns);

FindTileAmax amax_kernel(InstructionSet instructions, Dtype input);
QuantizeTile quantize_kernel(InstructionSet instructions, Dtype input, Dtype format);

// Arguments are checked already.
void quantize_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context, InstructionSet instructions);

// Quantises the rows of one strip: of a matrix, rows [index * kBlock, (index + 1) * kBlock) or up to
// its end, of groups those of token block `index`. They are read from `strip`, `pitch` elements
// apart, not from args.input. Takes blocks of 128, and for `out` 1xall without groups. The padding of
// the copies and the tail are left to the caller.
void quantize_strip_cpu_simd(const QuantizeProblem& problem, const QuantizeArgs& args,
                             std::int64_t index, const void* strip, std::int64_t pitch,
                             InstructionSet instructions);

}  // namespace octet
