// Quantised tensors of octet as two tensors of torch: FP8 values as uint8 [rows, pitch] and f32
// scales, both in octet's physical layout (docs/numerics.md). uint8, because torch's CPU has no
// arithmetic for float8, which its own checks of operators need; two tensors, because each must
// survive a copy to memory of any alignment.
#pragma once

#include "torch/tensor.hpp"

namespace octet_torch {

// Also of a matrix without rows or columns, which octet has no layout for: a batch of no tokens.
octet_quantized_layout layout_of(std::int64_t rows, std::int64_t cols, octet_dtype format,
                                 octet_block block);

struct Quantized {
  Tensor values;  // uint8 [rows, pitch]
  Tensor scales;  // f32 [lines, padded length of a line]
};

// Of a cast, for the scales of a matrix without elements.
struct ScaleOptions {
  float amax_floor = 0;
  bool pow2_scales = false;
};

// Memory for a cast. No cast runs on a matrix without elements: whole rows, columns and tensors then
// have the scales that a cast of zeros gives them, 1 without a floor.
Quantized empty_quantized(const octet_quantized_layout& layout, const Tensor& like,
                          const ScaleOptions& options = {});

// Refuses tensors that do not have the layout's shapes; `name` is the argument in messages.
octet_quantized view_of(const Quantized& quantized, const octet_quantized_layout& layout,
                        const char* name);

}  // namespace octet_torch
