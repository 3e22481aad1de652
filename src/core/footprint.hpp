// Which bytes a view touches, and whether two views share any.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// The largest distance of an element from the first, and of a line from the next, so that byte
// offsets fit 64 bits.
inline constexpr std::int64_t kReach = std::int64_t{1} << 58;  // elements

struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
inline bool overlap(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.end && b.begin < a.end;
}

// First to last byte of a view without negative strides; empty if it has no data.
ByteRange byte_range(const TensorView& view);

// Whether no two elements share memory: each stride is beyond the reach of all smaller ones.
bool elements_lie_apart(const TensorView& view);

// Whether two views share a byte. Parts of the lines of one tensor, such as packed q and k, do not.
bool share_memory(const TensorView& x, const TensorView& y);

// The lines of a view that owns its padding: the dimension along which they run, and the one whose
// stride is their distance.
struct LineDimensions {
  int along;
  int across;
};
// Of values, [rows, cols] or [batch, rows, cols].
inline LineDimensions value_lines(const TensorView& values) {
  return {values.rank - 1, values.rank - 2};
}
// Of scales: rows of a matrix, its columns, or the batch.
inline LineDimensions scale_lines(const TensorView& scales) {
  const int rows = scales.rank - 2;
  if (scales.strides[rows] == 1) return {rows, rows + 1};
  if (scales.rank == 3 && scales.strides[0] == 1) return {0, 1};
  return {rows + 1, rows};
}

// A view and the padding after each of its lines.
TensorView with_padding(TensorView view, LineDimensions lines);

// Whether both are the same view of the same memory, which an in-place operator accepts.
bool same_view(const TensorView& x, const TensorView& y);

}  // namespace octet
