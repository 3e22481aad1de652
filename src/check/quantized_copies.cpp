#include "check/quantized_copies.hpp"

#include "cpu/threads.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

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

// The same from several threads; visit(part, i, j) knows which of kParts it belongs to.
constexpr std::int64_t kParts = 64;

template <class Visit>
void visit_in_parts(const TensorView& x, const TensorView& y, const Visit& visit) {
  parallel_for(default_threads(), kParts, [&](std::int64_t part) {
    visit_both(x, y, x.rows() * part / kParts, x.rows() * (part + 1) / kParts,
               [&](std::int64_t i, std::int64_t j) { visit(part, i, j); });
  });
}

template <class T>
void copy_matrix(const TensorView& from, const TensorView& to) {
  const auto* x = static_cast<const T*>(from.data);
  auto* y = static_cast<T*>(to.data);
  visit_in_parts(from, to, [=](std::int64_t, std::int64_t i, std::int64_t j) { y[j] = x[i]; });
}

template <class Bits>
std::int64_t differences(const TensorView& given, const TensorView& wanted) {
  const auto* x = static_cast<const unsigned char*>(given.data);
  const auto* y = static_cast<const unsigned char*>(wanted.data);
  constexpr std::int64_t kSize = sizeof(Bits);
  std::array<std::int64_t, kParts> counts{};
  visit_in_parts(given, wanted, [&](std::int64_t part, std::int64_t i, std::int64_t j) {
    counts[static_cast<std::size_t>(part)] += std::memcmp(x + i * kSize, y + j * kSize, kSize) != 0;
  });
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

void copy_quantized(const QuantizedView& from, const QuantizedView& to) {
  copy_matrix<std::uint8_t>(from.values, to.values);
  copy_matrix<float>(from.scales, to.scales);
}

std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted) {
  return differences<std::uint8_t>(given.values, wanted.values) +
         differences<float>(given.scales, wanted.scales);
}

}  // namespace octet
