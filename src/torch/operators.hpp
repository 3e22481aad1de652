// How an operator of torch.ops.octet is written: a kernel that takes its arguments from the stack, in
// the order of its schema, and leaves its results there; and an entry in the table of its file.
#pragma once

#include "torch/tensor.hpp"

#include <bit>
#include <span>

namespace octet_torch {

inline std::int64_t int_at(const StackValue* stack, int i) {
  return static_cast<std::int64_t>(stack[i]);
}
inline bool bool_at(const StackValue* stack, int i) { return (stack[i] & 0xff) != 0; }
inline double double_at(const StackValue* stack, int i) { return std::bit_cast<double>(stack[i]); }

// An argument of type `Tensor?`; a Tensor without a handle for None.
inline Tensor optional_at(const StackValue* stack, int i) {
  auto* const boxed = reinterpret_cast<StackValue*>(stack[i]);
  if (boxed == nullptr) return {};
  Tensor tensor(*boxed);
  delete boxed;  // the kernel owns the box as well
  return tensor;
}

// Null, or why the kernel failed.
const char* run_kernel(void (*kernel)(StackValue*), StackValue* stack);

// libtorch throws through this frame: it holds nothing that has a destructor.
template <void (*kernel)(StackValue*)>
void boxed(StackValue* stack, std::uint64_t, std::uint64_t) {
  if (const char* text = run_kernel(kernel, stack)) shim.check(false, "", "octet", 0, text);
}

// Strings and lists are slow in the shim, so no schema has them. Formats, blocks and dtypes are the
// numbers of octet's C API.
struct Operator {
  const char* schema;  // the name is what stands before the parenthesis
  BoxedKernel kernel;
};
using Operators = std::span<const Operator>;

}  // namespace octet_torch
