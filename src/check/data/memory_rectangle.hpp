// Rows of bytes at equal distances, on the CPU or on a CUDA device: the form in which guard bands,
// padding and the elements of a matrix are filled and counted.
#pragma once

#include <octet/tensor.hpp>

#include <cstdint>

namespace octet {

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

}  // namespace octet
