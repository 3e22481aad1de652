#include <octet/tensor.hpp>

#include "core/message.hpp"
#include "core/views.hpp"

#include <sstream>

namespace octet {
namespace {

std::string list(const std::array<std::int64_t, kMaxRank>& values, int count) {
  std::ostringstream stream;
  stream << '[';
  for (int i = 0; i < count; ++i) stream << (i ? ", " : "") << values[i];
  stream << ']';
  return stream.str();
}

int described_rank(const TensorView& view) {
  return view.rank < 0 ? 0 : (view.rank > kMaxRank ? kMaxRank : view.rank);
}

}  // namespace

bool is_dense(const TensorView& view) {
  std::int64_t step = 1;
  for (int i = described_rank(view) - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != step) return false;
    if (__builtin_mul_overflow(step, view.shape[i], &step)) return false;
  }
  return true;
}

TensorView make_view(void* data, Dtype dtype, std::initializer_list<std::int64_t> shape,
                     Device device) {
  if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
    refuse_argument("make_view: rank must be at most ", kMaxRank, ", got ", shape.size());
  }
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  for (std::int64_t extent : shape) view.shape[view.rank++] = extent;
  std::int64_t step = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = step;
    if (__builtin_mul_overflow(step, view.shape[i], &step)) {
      refuse_argument("make_view: shape ", list(view.shape, view.rank), " passes 2^63 elements");
    }
  }
  return view;
}

TensorView make_view(const void* data, Dtype dtype, std::initializer_list<std::int64_t> shape,
                     Device device) {
  return make_view(const_cast<void*>(data), dtype, shape, device);
}

TensorView make_matrix(void* data, Dtype dtype, std::int64_t rows, std::int64_t cols,
                       std::int64_t row_stride, Device device) {
  TensorView view = make_view(data, dtype, {rows, 1}, device);
  view.shape[1] = cols;
  view.strides[0] = row_stride;
  return view;
}

TensorView transposed(const TensorView& matrix) {
  if (matrix.rank != 2) {
    refuse_argument("transposed: the view must have rank 2, got rank ", matrix.rank);
  }
  TensorView view = matrix;
  view.shape[0] = matrix.shape[1];
  view.shape[1] = matrix.shape[0];
  view.strides[0] = matrix.strides[1];
  view.strides[1] = matrix.strides[0];
  return view;
}

std::string describe_shape(const TensorView& view) {
  return list(view.shape, described_rank(view));
}

std::string describe(const TensorView& view) {
  std::string result = text(name(view.dtype), describe_shape(view));
  if (!is_dense(view)) result += " strides " + list(view.strides, described_rank(view));
  return result;
}

}  // namespace octet
