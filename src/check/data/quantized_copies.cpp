#include "check/data/quantized_copies.hpp"

#include "check/judge/compare_outputs.hpp"
#include "check/cuda_gates.hpp"
#include "cpu/threads.hpp"

#include <algorithm>

namespace octet {
namespace {

// Calls visit(offset in x, offset in y) for every element of two matrices of one shape, in squares,
// as the two may differ in which of their dimensions is the contiguous one.
template <class Visit>
void visit_both(const TensorView& x, const TensorView& y, std::int64_t first_row,
                std::int64_t end_row, const Visit& visit) {
  constexpr std::int64_t kSquare = 64;
  for (std::int64_t row = first_row; row < end_row; row += kSquare) {
    for (std::int64_t col = 0; col < x.cols(); col += kSquare) {
      for (std::int64_t r = row; r < std::min(row + kSquare, end_row); ++r) {
        for (std::int64_t c = col; c < std::min(col + kSquare, x.cols()); ++c) {
          visit(r * x.strides[0] + c * x.strides[1], r * y.strides[0] + c * y.strides[1]);
        }
      }
    }
  }
}

template <class T>
void copy_matrix(const TensorView& from, const TensorView& to) {
  const auto* x = static_cast<const T*>(from.data);
  auto* y = static_cast<T*>(to.data);
  constexpr std::int64_t kParts = 64;
  parallel_for(default_threads(), kParts, [&](std::int64_t part) {
    visit_both(from, to, from.rows() * part / kParts, from.rows() * (part + 1) / kParts,
               [=](std::int64_t i, std::int64_t j) { y[j] = x[i]; });
  });
}

template <class T>
void copy_wherever(const TensorView& from, const TensorView& to) {
  if (from.device.type == DeviceType::cuda) return cuda::copy_matrix(from, to);
  copy_matrix<T>(from, to);
}

}  // namespace

void copy_quantized(const QuantizedView& from, const QuantizedView& to) {
  copy_wherever<std::uint8_t>(from.values, to.values);
  copy_wherever<float>(from.scales, to.scales);
}

std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted) {
  return compare_whole_outputs(given.values, wanted.values).different +
         compare_whole_outputs(given.scales, wanted.scales).different;
}

}  // namespace octet
