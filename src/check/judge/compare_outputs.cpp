#include "check/judge/compare_outputs.hpp"

#include "check/cuda_gates.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace octet {
namespace {

void require_alike(const TensorView& x, const TensorView& y) {
  const bool alike = x.dtype == y.dtype && x.rank == 2 && y.rank == 2 && x.rows() == y.rows() &&
                     x.cols() == y.cols() && x.device == y.device;
  if (alike) return;
  refuse_argument("compare_whole_outputs: x and y must be matrices alike, got x ", describe(x),
                  " on ", name(x.device), " and y ", describe(y), " on ", name(y.device));
}

// Whether two rows are equal, for contiguous rows (most are); false for others.
bool row_is_equal(const TensorView& x, const TensorView& y, std::int64_t row) {
  if (x.strides[1] != 1 || y.strides[1] != 1) return false;
  const std::int64_t size = size_bytes(x.dtype);
  return std::memcmp(static_cast<const char*>(x.data) + row * x.strides[0] * size,
                     static_cast<const char*>(y.data) + row * y.strides[0] * size,
                     static_cast<std::size_t>(x.cols() * size)) == 0;
}

// Compares rows [first, end) in squares: x and y may differ in which dimension is contiguous.
OutputDifferences compare_rows(const TensorView& x, const TensorView& y, std::int64_t first,
                               std::int64_t end) {
  constexpr std::int64_t kSquare = 64;
  const int size = static_cast<int>(size_bytes(x.dtype));
  OutputDifferences found;
  while (first < end && row_is_equal(x, y, first)) ++first;
  for (std::int64_t col = 0; col < x.cols(); col += kSquare) {
    for (std::int64_t r = first; r < end; ++r) {
      for (std::int64_t c = col; c < std::min(col + kSquare, x.cols()); ++c) {
        const auto left = bits_at(x.data, r * x.strides[0] + c * x.strides[1], size);
        const auto right = bits_at(y.data, r * y.strides[0] + c * y.strides[1], size);
        if (left == right) continue;
        ++found.different;
        found.largest_ulps = std::max(found.largest_ulps, ulps_apart(left, right, x.dtype));
      }
    }
  }
  return found;
}

}  // namespace

OutputDifferences compare_whole_outputs(const TensorView& x, const TensorView& y) {
  require_alike(x, y);
  if (x.device.type == DeviceType::cuda) return cuda::compare_whole_outputs(x, y);
  constexpr std::int64_t kRows = 64;
  const std::int64_t tasks = (x.rows() + kRows - 1) / kRows;
  std::vector<OutputDifferences> parts(static_cast<std::size_t>(tasks));
  parallel_for(default_threads(), tasks, [&](std::int64_t task) {
    parts[static_cast<std::size_t>(task)] =
        compare_rows(x, y, task * kRows, std::min((task + 1) * kRows, x.rows()));
  });
  OutputDifferences result;
  for (const OutputDifferences& part : parts) {
    result.different += part.different;
    result.largest_ulps = std::max(result.largest_ulps, part.largest_ulps);
  }
  return result;
}

std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted) {
  return compare_whole_outputs(given.values, wanted.values).different +
         compare_whole_outputs(given.scales, wanted.scales).different;
}

}  // namespace octet
