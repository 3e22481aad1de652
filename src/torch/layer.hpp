// The casts and products that the linear layers are made of, with memory from torch.
#pragma once

#include "torch/operators.hpp"
#include "torch/quantized.hpp"

namespace octet_torch {

// How the scales of a layer are shared, by the number that the schemas call wgrad: blockwise with x^T
// in 1x128 (1) or 128x128 (2) blocks, tensorwise (3), rowwise (4), mxfp8 with x^T as blockwise (5, 6).
// Of these, 6 more is the same with fast_accumulation (9, 10), or with mx_scale even (11, 12), and 12
// more with mx_scale up (17, 18).
class Scaling {
 public:
  explicit Scaling(std::int64_t number);

  octet_block rows() const;        // of x, dy and dy^T
  octet_block weights() const;     // of w and w^T
  octet_block transposed() const;  // of x^T
  bool folds_mx() const { return granularity_ == OCTET_MXFP8; }
  octet_mx_scale mx_scale() const { return mx_scale_; }
  bool fast_accumulation() const { return fast_accumulation_; }
  bool is_blockwise() const { return granularity_ == OCTET_BLOCKWISE; }
  // Whether one pass of an activation or a norm can write these copies: a scale of a row needs that row
  // alone, those of columns and tensors all rows, and mx blocks are the quantiser's. Hopper's kernels of
  // row scales take 16 bits.
  bool one_pass_writes(octet_dtype dtype, bool row, bool column) const {
    return is_blockwise() ||
           (granularity_ == OCTET_ROWWISE && row && !column && dtype != OCTET_F32);
  }

 private:
  octet_block or_whole(octet_block block) const;

  octet_granularity granularity_;
  bool square_;
  octet_mx_scale mx_scale_ = OCTET_MX_FLOOR;
  bool fast_accumulation_ = false;
};

// An FP8 format, and whether blocks of 128 hold folded mx blocks, with scales by which rule.
struct Encoding {
  octet_dtype format;
  bool fold_mx = false;
  octet_mx_scale mx_scale = OCTET_MX_FLOOR;

  Encoding(octet_dtype fp8, const Scaling& scaling)
      : format(fp8), fold_mx(scaling.folds_mx()), mx_scale(scaling.mx_scale()) {}
};

// The three options of a layer, as they stand in the schemas.
struct Recipe {
  octet_dtype format;        // of activations and weights
  octet_dtype grad_format;   // of gradients
  octet_wgrad_blocks wgrad;  // the number of its Scaling

  Scaling scaling() const { return Scaling(wgrad); }
  Encoding encoding() const { return {format, scaling()}; }
  Encoding grad_encoding() const { return {grad_format, scaling()}; }

  Recipe(const StackValue* stack, int first)
      : format(static_cast<octet_dtype>(int_at(stack, first))),
        grad_format(static_cast<octet_dtype>(int_at(stack, first + 1))),
        wgrad(static_cast<octet_wgrad_blocks>(int_at(stack, first + 2))) {}
};

// Of operators that only write blocks of 128, without mx inside.
octet_block transposed_block(octet_wgrad_blocks wgrad);
inline octet_block row_block() { return octet_block_of(1, 128); }
inline octet_block square_block() { return octet_block_of(128, 128); }

// An FP8 matrix: memory, and what octet sees of it. No memory: no matrix. Scales may lie in the memory
// of the values.
struct Fp8 {
  Quantized memory;
  octet_quantized view{};

  explicit operator bool() const { return memory.values.get() != nullptr; }
  // What an operator returns for it, if it was made for that: shape [0] if there is none.
  void release(StackValue* values, StackValue* scales, const Tensor& like);
};

// A matrix and its transpose.
struct Copies {
  Fp8 row;
  Fp8 column;
};

// Memory for [rows, cols] and for [cols, rows]; octet_no_copy() for what is not needed.
Copies empty_copies(std::int64_t rows, std::int64_t cols, octet_dtype format, octet_block block,
                    octet_block transposed_block, const Tensor& like);
// Such copies as the FP8 output of an operator.
octet_fp8_output output_of(const Copies& copies, octet_dtype format);
octet_fp8_copies views_of(const Copies& copies);

// What an operator returns in the place of a result that it only wrote in FP8: a tensor of the
// result's shape and dtype with one element in memory, through which gradients flow.
Tensor carrier_like(const octet_tensor& result, const Tensor& like);

// Two tensors of the stack as an FP8 matrix [rows, cols]; none if they are none.
Fp8 given_fp8(Quantized tensors, std::int64_t rows, std::int64_t cols, octet_dtype format,
              octet_block block, const char* name);

// Which copies an operator returns. Others live as long as the call, values and scales in one piece
// of memory: an allocation takes a microsecond of an eager layer.
enum class Returned { none, column, both };

// x [rows, cols] in FP8; octet_no_copy() for an orientation that is not needed.
Copies cast(const Tensor& x, const char* name, Encoding encoding, octet_block block,
            octet_block transposed_block, Returned returned = Returned::none);
// The same into memory that is there.
void cast_into(const Tensor& x, const char* name, Encoding encoding, const Copies& out);

struct ProductOptions {
  bool accumulate = false;         // d +=
  bool fast_accumulation = false;  // on CUDA, the sum stays in the tensor cores
  const Tensor* bias = nullptr;    // [N]; null or a Tensor without a handle: none
};

// d [M, N] = a [M, K] b [N, K]^T; nothing to do where M is 0
void multiply(const Fp8& a, const Fp8& b, const octet_tensor& d, const ProductOptions& options,
              const Tensor& like);

// Refuses a tensor whose shape is not [rows, cols]: "octet: w must be [N, K] = [130, 256], got ...".
void check_shape(const octet_tensor& view, const char* name, const char* letters, std::int64_t rows,
                 std::int64_t cols);

// The view of a main gradient, to which the gradient of w is added. Refuses what backward could not
// write: forward calls it as well, so that no backward stops halfway.
octet_tensor main_grad_view(const Tensor& main_grad, const char* name, const char* letters,
                            const octet_tensor& w);

}  // namespace octet_torch
