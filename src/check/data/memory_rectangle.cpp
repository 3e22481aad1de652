#include "check/data/memory_rectangle.hpp"

#include "check/cuda_gates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octet {
namespace {

bool on_cuda(const Rectangle& rectangle) { return rectangle.device.type == DeviceType::cuda; }

unsigned char* row_of(const Rectangle& rectangle, std::int64_t row) {
  return static_cast<unsigned char*>(rectangle.data) + row * rectangle.pitch;
}

// The sum of count(first, end) over the rows, seen as elements of type T.
template <class T, class Count>
std::int64_t sum_over_rows(const Rectangle& rectangle, const Count& count) {
  std::int64_t sum = 0;
  for (std::int64_t r = 0; r < rectangle.rows; ++r) {
    const auto* first = reinterpret_cast<const T*>(row_of(rectangle, r));
    sum += count(first, first + rectangle.row_bytes / static_cast<std::int64_t>(sizeof(T)));
  }
  return sum;
}

template <class T>
std::int64_t count_bits(const Rectangle& rectangle, std::uint32_t bits) {
  return sum_over_rows<T>(rectangle, [bits](const T* first, const T* end) {
    return std::count(first, end, static_cast<T>(bits));
  });
}

bool is_empty(const Rectangle& rectangle) {
  return rectangle.rows == 0 || rectangle.row_bytes == 0;
}

}  // namespace

Rectangle columns(const Rectangle& rectangle, std::int64_t begin, std::int64_t end) {
  Rectangle result = rectangle;
  result.data = static_cast<unsigned char*>(rectangle.data) + begin;
  result.row_bytes = end - begin;
  return result;
}

Rectangle elements_of(const TensorView& matrix) {
  const std::int64_t size = size_bytes(matrix.dtype);
  return {matrix.data, matrix.rows(), matrix.cols() * size, matrix.strides[0] * size,
          matrix.device};
}

void fill(const Rectangle& rectangle, unsigned char byte) {
  if (is_empty(rectangle)) return;
  if (on_cuda(rectangle)) return cuda::fill(rectangle, byte);
  for (std::int64_t r = 0; r < rectangle.rows; ++r) {
    std::memset(row_of(rectangle, r), byte, static_cast<std::size_t>(rectangle.row_bytes));
  }
}

std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes) {
  if (is_empty(rectangle)) return 0;
  if (on_cuda(rectangle)) return cuda::count_equal(rectangle, bits, element_bytes);
  switch (element_bytes) {
    case 1: return count_bits<std::uint8_t>(rectangle, bits);
    case 2: return count_bits<std::uint16_t>(rectangle, bits);
    default: return count_bits<std::uint32_t>(rectangle, bits);
  }
}

std::int64_t count_not_finite(const Rectangle& rectangle) {
  if (is_empty(rectangle)) return 0;
  if (on_cuda(rectangle)) return cuda::count_not_finite(rectangle);
  return sum_over_rows<float>(rectangle, [](const float* first, const float* end) {
    return std::count_if(first, end, [](float value) { return !std::isfinite(value); });
  });
}

void copy(const Rectangle& from, const Rectangle& to) {
  if (is_empty(from)) return;
  if (on_cuda(from)) return cuda::copy(from, to);
  for (std::int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(row_of(to, r), row_of(from, r), static_cast<std::size_t>(from.row_bytes));
  }
}

}  // namespace octet
