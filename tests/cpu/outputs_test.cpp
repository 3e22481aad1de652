// clear_padding clears all of the padding that a view owns, and not one byte more.
#include "cpu/outputs.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace octet {
namespace {

constexpr unsigned char kUntouched = 0xEE;
constexpr std::size_t kGuard = 512;  // bytes before and after, a multiple of kAlignment

enum class Byte { untouched, zero, one };  // what a byte must be afterwards; one: part of 1.0f

// Marks the padding of one matrix: columns `length` to `step` of each of `lines` lines.
void mark(std::vector<Byte>& wanted, std::size_t offset, std::int64_t lines, std::int64_t length,
          std::int64_t step, int size, Byte mark) {
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t byte = length * size; byte < step * size; ++byte) {
      wanted[offset + static_cast<std::size_t>(line * step * size + byte)] = mark;
    }
  }
}

struct Memory {
  Buffer buffer;
  unsigned char* bytes;

  explicit Memory(std::size_t size)
      : buffer(size), bytes(static_cast<unsigned char*>(buffer.data())) {
    std::memset(bytes, kUntouched, size);
  }
};

void expect_bytes(const Memory& memory, const std::vector<Byte>& wanted) {
  const float one = 1.0f;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const unsigned char expected = wanted[i] == Byte::untouched ? kUntouched
                                   : wanted[i] == Byte::zero
                                       ? 0
                                       : reinterpret_cast<const unsigned char*>(&one)[i % 4];
    ASSERT_EQ(memory.bytes[i], expected) << "byte " << i << " of " << wanted.size();
  }
}

class Padding : public testing::TestWithParam<BlockShape> {};
INSTANTIATE_TEST_SUITE_P(Blocks, Padding, testing::Values(kBlock1x128, kBlock128x1, kBlock128x128));

TEST_P(Padding, IsClearedAndNothingElse) {
  for (std::int64_t rows : {1, 4, 5, 129, 300}) {
    for (std::int64_t cols : {1, 127, 128, 129, 700}) {
      SCOPED_TRACE(testing::Message() << rows << "x" << cols << " " << name(GetParam()));
      const QuantizedLayout layout(rows, cols, Dtype::e4m3, GetParam());
      const Memory memory(layout.bytes + 2 * kGuard);
      std::vector<Byte> wanted(layout.bytes + 2 * kGuard, Byte::untouched);
      mark(wanted, kGuard, rows, cols, layout.pitch, 1, Byte::zero);
      const int contiguous = layout.scale_strides[0] == 1 ? 0 : 1;
      mark(wanted, kGuard + layout.scales_offset, layout.scale_shape[1 - contiguous],
           layout.scale_shape[contiguous], layout.scale_strides[1 - contiguous], 4, Byte::one);
      clear_padding(layout.view(memory.bytes + kGuard));
      expect_bytes(memory, wanted);
    }
  }
}

TEST_P(Padding, OfAViewThatDoesNotOwnItIsNotWritten) {
  const QuantizedLayout layout(5, 130, Dtype::e4m3, GetParam());
  const Memory memory(layout.bytes);
  QuantizedView view = layout.view(memory.bytes);
  view.owns_padding = false;
  clear_padding(view);
  expect_bytes(memory, std::vector<Byte>(layout.bytes, Byte::untouched));
}

}  // namespace
}  // namespace octet
