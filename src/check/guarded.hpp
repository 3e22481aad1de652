// Outputs that notice what was not written and what was written outside: every element begins as a
// NaN that no operator makes of finite data, and the memory around the elements holds a pattern.
#pragma once

#include <octet/buffer.hpp>
#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

struct GuardFindings {
  std::int64_t unwritten = 0;    // elements that still hold the poison
  std::int64_t outside = 0;      // bytes around the elements that changed
  std::int64_t bad_padding = 0;  // owned padding that is not cleared
};

// A matrix with a band of 4 KiB before and after it, and `gap` elements behind every row.
class GuardedMatrix {
 public:
  GuardedMatrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap);

  const TensorView& view() const { return view_; }
  // For outputs that are added to. The elements are no longer poisoned.
  void fill_from(const TensorView& matrix);
  GuardFindings inspect() const;

 private:
  Buffer memory_;
  TensorView view_;
  bool poisoned_ = true;
};

// A quantised tensor in our own layout between two bands.
class GuardedQuantized {
 public:
  // The padding is the view's own, or else belongs to the guard.
  GuardedQuantized(const QuantizedLayout& layout, bool owns_padding);

  const QuantizedView& view() const { return view_; }
  GuardFindings inspect() const;

 private:
  QuantizedLayout layout_;
  Buffer memory_;
  QuantizedView view_;
};

}  // namespace octet
