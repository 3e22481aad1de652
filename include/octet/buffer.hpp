// Owning memory, from octet's own allocator or from the caller's.
#pragma once

#include <octet/tensor.hpp>

#include <cstddef>

namespace octet {

// Every buffer and workspace starts on this boundary: enough for a bulk tensor copy.
inline constexpr std::size_t kAlignment = 256;

// The caller's allocator, such as a framework's caching allocator. Give both functions or neither.
struct Allocator {
  void* (*allocate)(std::size_t bytes, Device device, void* user) = nullptr;  // null: out of memory
  void (*release)(void* memory, std::size_t bytes, Device device, void* user) = nullptr;
  void* user = nullptr;
};

// Zeroed memory on one device; moved, never copied. Throws Error(out_of_memory).
class OCTET_API Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes, Device device = kCpu, const Allocator& allocator = {});
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_{};
  Allocator allocator_{};
};

// An owning dense tensor.
class OCTET_API Tensor {
 public:
  Tensor() = default;
  Tensor(Dtype dtype, std::initializer_list<std::int64_t> shape, Device device = kCpu,
         const Allocator& allocator = {});

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: meant to convert
  void* data() const { return view_.data; }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  TensorView view_;
};

// Copies the elements of a dense tensor to another of the same dtype and shape, between the host
// and a CUDA device or within either, after the work queued on `stream`. Returns when the copy is
// done.
OCTET_API void copy(const TensorView& from, const TensorView& to, void* stream = nullptr);

}  // namespace octet
