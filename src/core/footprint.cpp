#include "core/footprint.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace octet {
namespace {

struct Dimension {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

// The dimensions of more than one element, the smallest stride first.
struct SortedDimensions {
  std::array<Dimension, kMaxRank> all;
  int count = 0;

  explicit SortedDimensions(const TensorView& view) {
    for (int i = 0; i < view.rank; ++i) {
      if (view.shape[i] == 1) continue;
      int place = count++;
      for (; place > 0 && view.strides[i] < all[place - 1].stride; --place) {
        all[place] = all[place - 1];
      }
      all[place] = {view.shape[i], view.strides[i]};
    }
  }
  Dimension* begin() { return all.data(); }
  Dimension* end() { return all.data() + count; }
};

// Runs of bytes of equal length at equal distances.
struct Lines {
  std::int64_t bytes = 0;
  std::int64_t pitch = 0;  // 0 if there is only one
};

// Joins dimensions that follow one another without a gap; empty if two or more have gaps.
std::optional<Lines> lines_of(const TensorView& view) {
  const std::int64_t element_bytes = size_bytes(view.dtype);
  Lines lines{element_bytes, 0};
  std::int64_t end = 0;  // end of the lines joined so far, where the next would begin
  for (const Dimension& dimension : SortedDimensions(view)) {
    const std::int64_t step = dimension.stride * element_bytes;
    if (lines.pitch == 0 && step == lines.bytes) {
      lines.bytes *= dimension.extent;
    } else if (lines.pitch == 0 && step > lines.bytes) {
      lines.pitch = step;
      end = step * dimension.extent;
    } else if (lines.pitch != 0 && step == end) {
      end = step * dimension.extent;
    } else {
      return std::nullopt;
    }
  }
  return lines;
}

// Whether the views are different parts of the lines of one tensor.
bool lie_side_by_side(const TensorView& x, const TensorView& y) {
  const auto a = lines_of(x);
  const auto b = lines_of(y);
  if (!a || !b || a->pitch == 0 || a->pitch != b->pitch) return false;
  const auto distance = reinterpret_cast<std::intptr_t>(y.data) -  //
                        reinterpret_cast<std::intptr_t>(x.data);
  const std::int64_t offset = (distance % a->pitch + a->pitch) % a->pitch;
  return offset >= a->bytes && offset + b->bytes <= a->pitch;
}

}  // namespace

ByteRange byte_range(const TensorView& view) {
  if (view.data == nullptr || view.rank == 0) return {};
  const auto* end = view.shape.begin() + view.rank;
  const auto is_empty = [](std::int64_t extent) { return extent <= 0; };
  if (std::any_of(view.shape.begin(), end, is_empty)) return {};  // its strides may be anything
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i) last += (view.shape[i] - 1) * view.strides[i];
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  return {begin, begin + static_cast<std::uintptr_t>((last + 1) * size_bytes(view.dtype))};
}

bool elements_lie_apart(const TensorView& view) {
  std::int64_t last = 0;
  for (const Dimension& dimension : SortedDimensions(view)) {
    if (dimension.stride <= last) return false;
    last += (dimension.extent - 1) * dimension.stride;
  }
  return true;
}

bool share_memory(const TensorView& x, const TensorView& y) {
  return x.device == y.device && overlap(byte_range(x), byte_range(y)) && !lie_side_by_side(x, y);
}

TensorView with_padding(TensorView view, LineDimensions lines) {
  if (view.data == nullptr) return view;
  const std::int64_t pitch = view.strides[lines.across];
  const bool in_lines = view.strides[lines.along] == 1 || view.shape[lines.along] == 1;
  if (in_lines && pitch > view.shape[lines.along] && pitch <= kReach) {
    view.shape[lines.along] = pitch;
    view.strides[lines.along] = 1;
  }
  return view;
}

bool same_view(const TensorView& x, const TensorView& y) {
  return x.data == y.data && x.dtype == y.dtype && x.rank == y.rank && x.device == y.device &&
         std::equal(x.shape.begin(), x.shape.begin() + x.rank, y.shape.begin()) &&
         std::equal(x.strides.begin(), x.strides.begin() + x.rank, y.strides.begin());
}

}  // namespace octet
