// Tensors on any device as numbers in f64: what references read.
#pragma once

#include "check/reference/on_host.hpp"

#include <span>
#include <vector>

namespace octet {

// Some rows of a matrix on any device, as f64: what a reference reads.
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

// A vector seen as a matrix of one row, or of one column.
TensorView as_row(const TensorView& vector);
TensorView as_column(const TensorView& vector);
// All of a vector, on any device, as f64.
std::vector<double> decoded(const TensorView& vector);

// To nearest even in f32, f16 or bf16.
double rounded(double value, Dtype dtype);

}  // namespace octet
