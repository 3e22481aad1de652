// The pieces of swiglu that gated_mlp also needs.
#pragma once

#include "torch/layer.hpp"

namespace octet_torch {

struct Halves {
  octet_tensor gate, up;  // [rows, cols] each
};

// gate | up side by side in one tensor.
Halves halves_of(const Tensor& packed, const char* name);

// silu(gate) * up in FP8; octet_no_copy() for an orientation that is not needed.
Copies swiglu_in_fp8(const Halves& in, const Tensor& like, octet_dtype format, octet_block block,
                     octet_block transposed_block);

// The gradient of gate | up [rows, 2 cols] in FP8 with 1x128 blocks, one copy or both.
Copies swiglu_backward_in_fp8(const Tensor& dy, const Halves& in, const Tensor& like,
                              octet_dtype format, bool row, bool column);

// Both as tensors of the dtype of gate, for casts of their own.
Tensor swiglu_of(const Halves& in, const Tensor& like);
Tensor swiglu_backward_of(const Tensor& dy, const Halves& in, const Tensor& like);  // gate | up

}  // namespace octet_torch
