// All memory of one call in one block, so that a single comparison shows whether a refused call
// wrote to an output, an input or the workspace.
#pragma once

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace octet::bad_input {

class Arena {
 public:
  explicit Arena(std::size_t bytes) : buffer_(bytes) {
    auto* data = static_cast<unsigned char*>(buffer_.data());
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 37 % 101);
  }

  char* take(std::size_t bytes) {
    char* piece = static_cast<char*>(buffer_.data()) + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    EXPECT_LE(used_, buffer_.bytes()) << "the test's arena is too small";
    return piece;
  }

  TensorView tensor(Dtype dtype, std::initializer_list<std::int64_t> shape) {
    std::int64_t bytes = size_bytes(dtype);
    for (const std::int64_t extent : shape) bytes *= extent;
    return make_view(static_cast<void*>(take(static_cast<std::size_t>(bytes))), dtype, shape);
  }
  TensorView matrix(Dtype dtype, std::int64_t rows, std::int64_t cols) {
    return tensor(dtype, {rows, cols});
  }

  QuantizedView quantized(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block) {
    const QuantizedLayout layout(rows, cols, dtype, block);
    return layout.view(take(layout.bytes));
  }

  QuantizedView quantized(const QuantizedBatchLayout& layout) {
    return layout.view(take(layout.bytes));
  }

  Workspace workspace(std::size_t bytes) { return {take(bytes), bytes}; }

  std::vector<char> snapshot() const {
    const char* data = static_cast<const char*>(buffer_.data());
    return {data, data + buffer_.bytes()};
  }

 private:
  Buffer buffer_;
  std::size_t used_ = 0;
};

}  // namespace octet::bad_input
