// What the operators over groups of rows share: weights of experts in FP8, and their gradients.
#pragma once

#include "torch/layer.hpp"

namespace octet_torch {

// Several FP8 matrices of one shape in one piece of memory, and what octet sees of them.
struct Fp8Batch {
  Tensor memory;
  octet_quantized view{};
};

// The view of a batch in torch's memory, which is aligned to 64 bytes and not to OCTET_ALIGNMENT: enough
// for FP8 values and scales.
octet_quantized view_of(const octet_quantized_batch_layout& layout, const Tensor& memory,
                        const char* name, octet_device device);

// w [experts, N, K] in 128x128 blocks, or each matrix transposed.
enum class Turned { no, yes };
Fp8Batch cast_experts(const Tensor& w, const char* name, octet_dtype format, Turned turned);

// The view of w [experts, N, K]. Refuses one that is not, and one without elements.
octet_tensor experts_view(const Tensor& w, const char* name, const char* letters);
// Refuses a tensor of another shape than [a, b, c].
void check_shape(const octet_tensor& view, const char* name, const char* letters, std::int64_t a,
                 std::int64_t b, std::int64_t c);
// The view of a main gradient [experts, N, K]. Refuses what backward could not write.
octet_tensor experts_main_grad(const Tensor& main_grad, const char* name, const octet_tensor& w);

// The memory of a dense uint8 or int32 tensor of this many elements.
void* dense_memory(const Tensor& tensor, std::int32_t dtype, std::int64_t elements,
                   const char* name);

}  // namespace octet_torch
