// The kernels of torch.ops.octet. Each takes its arguments from the stack, in the order of its
// schema (operators.cpp), and leaves its results there.
#pragma once

#include "torch/shim.hpp"

#include <bit>

namespace octet_torch {

inline std::int64_t int_at(const StackValue* stack, int i) {
  return static_cast<std::int64_t>(stack[i]);
}
inline bool bool_at(const StackValue* stack, int i) { return (stack[i] & 0xff) != 0; }
inline double double_at(const StackValue* stack, int i) { return std::bit_cast<double>(stack[i]); }

void linear_forward(StackValue* stack);
void linear_forward_main_grad(StackValue* stack);
void linear_backward(StackValue* stack);
void linear_backward_main_grad(StackValue* stack);
void quantize(StackValue* stack);
void dequantize(StackValue* stack);
void rms_norm(StackValue* stack);
void rms_norm_residual(StackValue* stack);
void rms_norm_backward(StackValue* stack);
void rms_norm_residual_backward(StackValue* stack);
void rope(StackValue* stack);
void rope_backward(StackValue* stack);
void swiglu(StackValue* stack);
void swiglu_backward(StackValue* stack);

}  // namespace octet_torch
