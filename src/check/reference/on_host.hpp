// Tensors of any device in memory that the host can read: the tensor itself on the CPU, a copy of a
// part of it on a CUDA device; as stored, or as numbers in f64.
#pragma once

#include <octet/buffer.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace octet {

// Some rows of a matrix.
class RowsOnHost {
 public:
  RowsOnHost() = default;
  // `rows`: empty means all of them. A view without data has no rows to copy.
  RowsOnHost(const TensorView& matrix, const std::vector<std::int64_t>& rows);

  bool empty() const { return view_.data == nullptr; }
  const TensorView& view() const { return view_; }
  // The row of view() that holds row `row` of the matrix, which is entry `index` of the list.
  std::int64_t find(std::int64_t index, std::int64_t row) const { return copied_ ? index : row; }

 private:
  Tensor copy_;
  TensorView view_;
  bool copied_ = false;
};

// Part of a matrix with one contiguous dimension.
struct Part {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t col = 0;
  std::int64_t cols = 0;
};

class PartOnHost {
 public:
  PartOnHost(const TensorView& matrix, const Part& part);

  const TensorView& view() const { return view_; }

 private:
  Tensor copy_;
  TensorView view_;
};

// Some rows of a matrix on any device, as f64, for a reference to read.
class DecodedRows {
 public:
  DecodedRows() = default;
  // `rows`: ascending. A matrix without data has none.
  DecodedRows(const TensorView& matrix, const std::vector<std::int64_t>& rows);

  bool empty() const { return host_.empty(); }
  // Row `row` of the matrix, one of the list.
  void read(std::int64_t row, std::span<double> values) const;

 private:
  std::vector<std::int64_t> rows_;
  RowsOnHost host_;
};
// All of a vector, on any device, as f64.
std::vector<double> decoded(const TensorView& vector);

}  // namespace octet
