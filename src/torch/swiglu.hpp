// The pieces of swiglu that gated_mlp also needs.
#pragma once

#include "torch/layer.hpp"

namespace octet_torch {

struct Halves {
  octet_tensor gate, up;  // [rows, cols] each
};

// gate | up side by side in one tensor.
Halves halves_of(const Tensor& packed, const char* name);

// silu(gate) * up in FP8, one copy or both: in one pass where the activation can write them, otherwise
// through a tensor of the dtype of gate.
Copies swiglu_in_fp8(const Halves& in, const Tensor& like, octet_dtype format,
                     const Scaling& scaling, bool row, bool column);

// The gradient of gate | up [rows, 2 cols] in FP8 with 1x128 blocks, one copy or both.
Copies swiglu_backward_in_fp8(const Tensor& dy, const Halves& in, const Tensor& like,
                              octet_dtype format, bool row, bool column);

// Both as tensors of the dtype of gate, for casts of their own.
Tensor swiglu_of(const Halves& in, const Tensor& like);
Tensor swiglu_backward_of(const Tensor& dy, const Halves& in, const Tensor& like);  // gate | up

}  // namespace octet_torch
