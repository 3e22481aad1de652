// Which bytes a view touches, and whether two views share any.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// No element lies further from the first, and no line from the next: so bytes fit 64 bits.
inline constexpr std::int64_t kReach = std::int64_t{1} << 58;  // elements

struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
inline bool overlap(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.end && b.begin < a.end;
}

// First to last byte of a view without negative strides; empty where it has no data.
ByteRange byte_range(const TensorView& view);

// No two elements share memory: each stride steps over all that smaller ones reach.
bool elements_lie_apart(const TensorView& view);

// Two views share a byte. Parts of the lines of one tensor, as q and k in a packed one, do not.
bool share_memory(const TensorView& x, const TensorView& y);

// Which dimension of a matrix of scales is the contiguous one.
inline int contiguous_dimension(const TensorView& scales) { return scales.strides[0] == 1 ? 0 : 1; }

// A matrix and the padding behind each of its lines, along its `contiguous` dimension.
TensorView with_padding(TensorView view, int contiguous);

// The same memory seen in the same way: what an operator that works in place may be given.
bool same_view(const TensorView& x, const TensorView& y);

}  // namespace octet
