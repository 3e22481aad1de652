// Other views of the same memory: part of a matrix, or all of it in another shape.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// No gaps between rows, and the last dimension is contiguous.
bool is_dense(const TensorView& view);

// Columns [first, first + count) of a matrix; an empty view stays empty.
inline TensorView columns(const TensorView& matrix, std::int64_t first, std::int64_t count) {
  if (matrix.data == nullptr) return matrix;
  TensorView view = matrix;
  view.data =
      static_cast<char*>(matrix.data) + first * matrix.strides[1] * size_bytes(matrix.dtype);
  view.shape[1] = count;
  return view;
}

// Matrix `index` of a batch [batch, rows, cols]. The padding stays the batch's.
inline TensorView matrix_of(const TensorView& batch, std::int64_t index) {
  TensorView view = make_matrix(batch.data, batch.dtype, batch.shape[1], batch.shape[2],
                                batch.strides[1], batch.device);
  view.strides[1] = batch.strides[2];
  if (batch.data != nullptr) {
    view.data = static_cast<char*>(batch.data) + index * batch.strides[0] * size_bytes(batch.dtype);
  }
  return view;
}
inline QuantizedView matrix_of(const QuantizedView& batch, std::int64_t index) {
  if (batch.scales.data == nullptr) return matrix_of(batch.values, index);
  return {matrix_of(batch.values, index), matrix_of(batch.scales, index), batch.block};
}

// Rows [first, first + count) of a matrix; an empty view stays empty.
inline TensorView rows_of(const TensorView& matrix, std::int64_t first, std::int64_t count) {
  if (matrix.data == nullptr) return matrix;
  TensorView view = matrix;
  view.data =
      static_cast<char*>(matrix.data) + first * matrix.strides[0] * size_bytes(matrix.dtype);
  view.shape[0] = count;
  return view;
}

// The same of a matrix with scales per row (1x128), or with none. The padding stays with the whole.
inline QuantizedView rows_of(const QuantizedView& matrix, std::int64_t first, std::int64_t count) {
  return {rows_of(matrix.values, first, count), rows_of(matrix.scales, first, count), matrix.block};
}

// gate | up, side by side in one matrix.
struct Halves {
  TensorView gate;
  TensorView up;

  explicit Halves(const TensorView& both)
      : gate(columns(both, 0, both.shape[1] / 2)),
        up(columns(both, both.shape[1] / 2, both.shape[1] / 2)) {}
};

// A vector as a matrix of one row, or of one column, and back; an empty view stays empty.
inline TensorView as_row(const TensorView& vector) {
  return make_view(vector.data, vector.dtype, {1, vector.shape[0]}, vector.device);
}
// A row that is added to every row of a [rows, cols] matrix; an empty view for an empty one.
inline TensorView repeated(const TensorView& row, std::int64_t rows) {
  TensorView view = row;
  if (row.data == nullptr) return view;
  view.shape[0] = rows;
  view.strides[0] = 0;
  return view;
}
inline TensorView as_column(const TensorView& vector) {
  return make_view(vector.data, vector.dtype, {vector.shape[0], 1}, vector.device);
}
inline TensorView as_vector(const TensorView& row) {
  if (row.data == nullptr) return {};
  return make_view(row.data, row.dtype, {row.cols()}, row.device);
}

}  // namespace octet
