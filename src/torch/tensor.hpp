// Tensors of torch as octet sees them, and memory that torch allocates for octet.
#pragma once

#include "torch/shim.hpp"

#include <octet/octet.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace octet_torch {

// Owns a reference to a tensor. Arguments on the stack are owned by the kernel that is called.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(StackValue owned) : handle_(reinterpret_cast<TensorHandle>(owned)) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor();

  TensorHandle get() const { return handle_; }
  // Gives the reference to the stack.
  StackValue release() { return reinterpret_cast<StackValue>(std::exchange(handle_, nullptr)); }

 private:
  TensorHandle handle_ = nullptr;
};

// The view of a tensor of f32, f16 or bf16. `name` is the argument in messages.
octet_tensor view_of(const Tensor& tensor, const char* name);

// The same for a tensor that must have `rank` dimensions: [d0, d1, ...].
octet_tensor view_of(const Tensor& tensor, const char* name, int rank);

// The same for indices: int32 or int64.
octet_tensor index_view_of(const Tensor& tensor, const char* name, int rank);

octet_device device_of(const Tensor& tensor);
std::int32_t torch_dtype(octet_dtype dtype);
std::string text_of(octet_device device);  // "cuda:0"

// A dense tensor on the device of `like`; `dtype` is torch's number.
Tensor empty(std::initializer_list<std::int64_t> shape, std::int32_t dtype, const Tensor& like);

// What an operator returns in the place of a result that was not asked for: shape [0].
Tensor absent(std::int32_t dtype, const Tensor& like);

// [rows, cols] with strides of 0 and one element in memory, which is 0.
Tensor carrier(std::int64_t rows, std::int64_t cols, std::int32_t dtype, const Tensor& like);

void set_to_zero(const Tensor& tensor);

// A view of a tensor's memory, and a copy of one tensor into another, on the current stream.
Tensor strided_view(const Tensor& tensor, std::initializer_list<std::int64_t> shape,
                    std::initializer_list<std::int64_t> strides, std::int64_t offset);
void copy_into(const Tensor& to, const Tensor& from);

// Scratch memory for one call, aligned to OCTET_ALIGNMENT. torch aligns to 64 bytes on the CPU.
class Workspace {
 public:
  Workspace(std::size_t bytes, const Tensor& like);
  void* data() const { return data_; }
  // The tensor that owns the memory, for a longer life.
  Tensor release() { return std::move(memory_); }

 private:
  Tensor memory_;
  void* data_ = nullptr;
};

// torch's current stream of the device; null on the CPU.
void* current_stream(octet_device device);

}  // namespace octet_torch
