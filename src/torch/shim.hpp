// The functions of torch's stable C shim that octet calls (torch/csrc/inductor/aoti_torch/c/shim.h,
// torch/csrc/stable/c/shim.h), found by name in the libtorch that the process has loaded. No header
// and no library of torch is needed to build, and one build runs with every torch since 2.10.
#pragma once

#include <cstdint>

namespace octet_torch {

using TensorHandle = struct AtenTensorOpaque*;
using LibraryHandle = struct TorchLibraryOpaque*;
// An argument or a result: an owned TensorHandle, an int64, a double, a bool in the first byte, or for
// an optional tensor null or a pointer to a StackValue.
using StackValue = std::uint64_t;
using BoxedKernel = void (*)(StackValue* stack, std::uint64_t inputs, std::uint64_t outputs);
using ShimStatus = std::int32_t;  // 0: success

struct Shim {
  ShimStatus (*get_data)(TensorHandle, void**);
  ShimStatus (*get_dim)(TensorHandle, std::int64_t*);
  ShimStatus (*get_sizes)(TensorHandle, std::int64_t**);
  ShimStatus (*get_strides)(TensorHandle, std::int64_t**);
  ShimStatus (*get_dtype)(TensorHandle, std::int32_t*);
  ShimStatus (*get_device_type)(TensorHandle, std::int32_t*);
  ShimStatus (*get_device_index)(TensorHandle, std::int32_t*);
  ShimStatus (*delete_tensor)(TensorHandle);
  ShimStatus (*empty_strided)(std::int64_t rank, const std::int64_t* sizes,
                              const std::int64_t* strides, std::int32_t dtype,
                              std::int32_t device_type, std::int32_t device_index, TensorHandle*);
  ShimStatus (*zero)(TensorHandle);
  ShimStatus (*copy)(TensorHandle to, TensorHandle from, std::int32_t non_blocking);
  ShimStatus (*as_strided)(TensorHandle, std::int64_t rank, const std::int64_t* sizes,
                           const std::int64_t* strides, std::int64_t offset, TensorHandle*);
  ShimStatus (*library_define)(const char* space, const char* file, std::uint32_t line,
                               LibraryHandle*);
  ShimStatus (*library_implement)(const char* space, const char* key, const char* file,
                                  std::uint32_t line, LibraryHandle*);
  ShimStatus (*define)(LibraryHandle, const char* schema);
  ShimStatus (*implement)(LibraryHandle, const char* name, BoxedKernel, std::uint64_t version);
  // Throws inside of libtorch, so that Python sees a RuntimeError of torch's own making.
  void (*check)(bool, const char* function, const char* file, std::uint32_t line,
                const char* message);
  // Why the last function above failed in this thread. Null before torch 2.13.
  const char* (*last_error)();
  // In libtorch_cuda.so: null in a torch without CUDA.
  ShimStatus (*current_cuda_stream)(std::int32_t device_index, void** stream);

  // Numbers of torch's dtypes and devices.
  std::int32_t f32, f16, bf16, u8, i32, i64, cuda;
};

extern Shim shim;

// Fills `shim`. Null, or the name of the library or function that this process does not have.
const char* load_shim();

}  // namespace octet_torch
