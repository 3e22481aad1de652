// The 128x128 tile of bytes that repack transposes in shared memory: index maps as constexpr
// functions that host tests cover.
//
// A thread loads 16 rows of four neighbouring columns, which lie side by side in a transposed
// source, and stores 16 words of four columns. Rows are then read in chunks of 16 columns. The
// chunks of a row are permuted by the number of its run of 16 rows, so that neither has bank
// conflicts.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

inline constexpr int kByteTile = 128;
inline constexpr int kByteChunk = 16;  // bytes of a vector
inline constexpr int kByteTileThreads = 256;

// Byte offset of columns 16 * chunk ... 16 * chunk + 15 of a row.
OCTET_HOST_DEVICE constexpr int byte_chunk_offset(int row, int chunk) {
  return row * kByteTile + ((chunk ^ (row / kByteChunk)) * kByteChunk);
}

// Byte offset of columns 4 * quad ... 4 * quad + 3 of a row.
OCTET_HOST_DEVICE constexpr int byte_quad_offset(int row, int quad) {
  return byte_chunk_offset(row, quad / 4) + quad % 4 * 4;
}

// What a thread loads: rows 16 * chunk ... 16 * chunk + 15 of columns 4 * quad ... 4 * quad + 3.
// Eight neighbouring lanes have the 128 rows of a column.
OCTET_HOST_DEVICE constexpr int loaded_chunk(int thread) { return thread % 8; }
OCTET_HOST_DEVICE constexpr int loaded_quad(int thread) { return thread / 8; }

// The chunks of a row are stored by eight neighbouring lanes: the row in round 0, and how many rows
// a round has.
OCTET_HOST_DEVICE constexpr int stored_row(int thread) { return thread / 8; }
OCTET_HOST_DEVICE constexpr int stored_chunk(int thread) { return thread % 8; }
inline constexpr int kByteRoundRows = kByteTileThreads / 8;

}  // namespace octet::sm90
