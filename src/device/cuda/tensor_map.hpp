// Tensor maps for the bulk copy engine, encoded by the driver at launch.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octet::cuda {

struct MatrixMap {
  CUtensorMapDataType type;
  int element_bytes;
  const void* data;  // aligned to 16 bytes
  std::int64_t rows;
  std::int64_t cols;         // contiguous
  std::int64_t pitch_bytes;  // a multiple of 16
  int box_rows;
  int box_cols;
  CUtensorMapSwizzle swizzle;
};

// Throws Error where the driver refuses.
CUtensorMap encode(const MatrixMap& matrix);

// Points a map to a matrix of the same layout at another address, aligned to 16 bytes: a quarter of the time
// of encode.
void replace_address(CUtensorMap& map, const void* data);

// The same matrix with its rows paired as mma/layout.hpp has it: a box is `box_rows` rows of whole
// groups, which rows and box_rows are multiples of.
CUtensorMap encode_paired_rows(const MatrixMap& matrix);

// `batch` such matrices, `apart_bytes` from one to the next: a box is one of a single matrix.
CUtensorMap encode_batch(const MatrixMap& matrix, std::int64_t batch, std::int64_t apart_bytes);

// The matrix with boxes that end at any row, as scheduler/ragged_rows.hpp has it.
CUtensorMap encode_ragged_rows(const MatrixMap& matrix);

// The heads of a tensor [batch, seq, heads, dim] whose dim is contiguous, in any order of the others.
struct HeadsMap {
  CUtensorMapDataType type;
  int element_bytes;
  const void* data;  // aligned to 16 bytes
  std::int64_t batch;
  std::int64_t seq;  // rows of a sequence
  std::int64_t heads;
  std::int64_t dim;  // a multiple of 16 bytes
  // From one to the next, multiples of 16; read where there is more than one.
  std::int64_t batch_bytes;
  std::int64_t seq_bytes;
  std::int64_t head_bytes;
  int box_rows;
  int box_cols;  // 128 bytes for the 128-byte swizzle
  CUtensorMapSwizzle swizzle;
};

// Boxes of `box_rows` rows of one head, at (column, row, head, sequence, 0). Zero beyond seq and dim. The fifth
// dimension has one element: kernels read ragged heads by as many coordinates.
CUtensorMap encode_heads(const HeadsMap& heads);

// The heads of [total, heads, dim], where sequences lie one behind the other; `seq` and `batch` are not
// read. A box is at (column, ragged_row(row, end), end, kRaggedExtent, head), with row and end counted from
// the tensor's first row, and ends before row `end` (scheduler/ragged_rows.hpp).
CUtensorMap encode_ragged_heads(const HeadsMap& heads);

}  // namespace octet::cuda
