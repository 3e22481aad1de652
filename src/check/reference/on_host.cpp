#include "check/reference/on_host.hpp"

#include "check/cuda_gates.hpp"
#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "core/views.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>
#include <numeric>

namespace octet {
namespace {

TensorView part_of(const TensorView& matrix, const Part& part) {
  TensorView view = matrix;
  view.data =
      static_cast<char*>(matrix.data) +
      (part.row * matrix.strides[0] + part.col * matrix.strides[1]) * size_bytes(matrix.dtype);
  view.shape[0] = part.rows;
  view.shape[1] = part.cols;
  return view;
}

// A dense copy of a device matrix with contiguous columns.
Tensor copy_to_host(const TensorView& matrix) {
  Tensor copy(matrix.dtype, {matrix.rows(), matrix.cols()});
  cuda::copy(elements_of(matrix), elements_of(copy));
  return copy;
}

}  // namespace

RowsOnHost::RowsOnHost(const TensorView& matrix, const std::vector<std::int64_t>& rows)
    : view_(matrix) {
  if (matrix.data == nullptr || matrix.device.type == DeviceType::cpu) return;
  std::vector<std::int64_t> list = rows;
  if (list.empty()) {
    list.resize(static_cast<std::size_t>(matrix.rows()));
    std::iota(list.begin(), list.end(), 0);
  }
  const Buffer list_on_device(list.size() * sizeof(std::int64_t), matrix.device);
  cuda::copy(list_on_device.data(), list.data(), list_on_device.bytes(), matrix.device.index);
  const Tensor gathered(matrix.dtype, {static_cast<std::int64_t>(list.size()), matrix.cols()},
                        matrix.device);
  cuda::gather_rows(matrix, static_cast<const std::int64_t*>(list_on_device.data()), gathered);
  copy_ = copy_to_host(gathered);
  view_ = copy_.view();
  copied_ = true;
}

PartOnHost::PartOnHost(const TensorView& matrix, const Part& part) : view_(part_of(matrix, part)) {
  if (matrix.device.type == DeviceType::cpu) return;
  // A single column, or row, has no neighbours: its stride may be anything.
  if (view_.cols() == 1 && view_.strides[0] != 1) view_.strides[1] = 1;
  if (view_.rows() == 1 && view_.strides[1] != 1) view_.strides[0] = 1;
  const bool column_major = view_.strides[1] != 1;
  if (column_major && view_.strides[0] != 1) {
    refuse_argument("copy to host: one dimension must be contiguous, got ", describe(view_));
  }
  copy_ = copy_to_host(column_major ? transposed(view_) : view_);
  view_ = column_major ? transposed(copy_.view()) : copy_.view();
}

DecodedRows::DecodedRows(const TensorView& matrix, const std::vector<std::int64_t>& rows)
    : rows_(rows), host_(matrix, rows) {}

void DecodedRows::read(std::int64_t row, std::span<double> values) const {
  const auto index = std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
  const std::int64_t where = host_.find(index, row);
  decode_panel(host_.view(), &where, 1, 1, 0, static_cast<int>(values.size()), values.data());
}

std::vector<double> decoded(const TensorView& vector) {
  std::vector<double> values(static_cast<std::size_t>(vector.shape[0]));
  DecodedRows(as_row(vector), {0}).read(0, values);
  return values;
}

}  // namespace octet
