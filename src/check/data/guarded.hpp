// Outputs that detect elements that were not written and writes outside of the elements: every byte
// of an element starts as 0xFF, a NaN that no operator makes from finite data, and the memory
// around the elements holds a pattern. They work on the CPU and on CUDA devices, where the guard
// bands are as large as an output tile.
#pragma once

#include "core/footprint.hpp"

#include <octet/buffer.hpp>
#include <octet/quantized.hpp>

#include <bit>
#include <cstdint>

namespace octet {

// Rows of bytes at equal distances: the form in which guard bands, padding and the elements of a
// matrix are filled and counted.
struct Rectangle {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch = 0;  // bytes from one row to the next
  Device device{};
};

// Bytes [begin, end) of every row.
Rectangle columns(const Rectangle& rectangle, std::int64_t begin, std::int64_t end);
// The elements of a matrix with contiguous columns.
Rectangle elements_of(const TensorView& matrix);

void fill(const Rectangle& rectangle, unsigned char byte);
// Elements of 1, 2 or 4 bytes that have exactly these bits.
std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes);
// f32 elements that are infinite or NaN.
std::int64_t count_not_finite(const Rectangle& rectangle);
// Copies row by row into another rectangle of the same size on the same device.
void copy(const Rectangle& from, const Rectangle& to);

struct GuardFindings {
  std::int64_t unwritten = 0;    // elements that still hold the poison
  std::int64_t outside = 0;      // bytes around the elements that changed
  std::int64_t bad_padding = 0;  // owned padding that is not cleared
};

// Memory between two bands: 4 KiB on the CPU, 1 MiB on CUDA devices. All of it holds the pattern.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, Device device);

  unsigned char* data() const { return static_cast<unsigned char*>(memory_.data()) + band_; }
  Rectangle before() const;
  // From byte `begin` of the memory to the end of the band after it.
  Rectangle behind(std::int64_t begin) const;

 private:
  std::int64_t band_;
  Buffer memory_;
};

// A matrix in guarded memory, with `gap` elements after every row.
class GuardedMatrix {
 public:
  GuardedMatrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                Device device = kCpu);

  const TensorView& view() const { return view_; }
  // For outputs that are accumulated into. The elements are no longer poisoned.
  void fill_from(const TensorView& matrix);
  GuardFindings inspect() const;

 private:
  GuardedMemory memory_;
  TensorView view_;
  bool poisoned_ = true;
};

// What scales that are given to an operator hold: all of them kGivenScale, 0.0115.
inline constexpr unsigned char kGivenScaleByte = 0x3C;
inline constexpr float kGivenScale = std::bit_cast<float>(0x3C3C3C3Cu);

// A quantised tensor, or a batch of them, in our own layout in guarded memory.
class GuardedQuantized {
 public:
  // The padding belongs to the view if `owns_padding`, else to the guard.
  GuardedQuantized(const QuantizedLayout& layout, bool owns_padding, Device device = kCpu);
  GuardedQuantized(const QuantizedBatchLayout& layout, bool owns_padding, Device device = kCpu);

  const QuantizedView& view() const { return view_; }
  // For calls that read scales. They are no longer poisoned.
  void give_scales();
  GuardFindings inspect() const { return inspect(view_.values.shape[0]); }
  // Of a tensor whose first `written` rows, or matrices of a batch, must be written and the others
  // must not. The padding of the others may hold anything.
  GuardFindings inspect(std::int64_t written) const;

 private:
  void poison();
  Rectangle value_rows() const;  // whole pitches, of all matrices
  Rectangle scale_lines() const;
  LineDimensions scale_dimensions() const { return octet::scale_lines(view_.scales); }
  std::int64_t scale_line_bytes() const;                   // of a line's scales, without padding
  std::int64_t not_finite(const Rectangle& scales) const;  // how many of these

  std::int64_t scales_offset_;
  GuardedMemory memory_;
  QuantizedView view_;
};

}  // namespace octet
