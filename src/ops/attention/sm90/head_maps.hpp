// Tensor maps of heads for attention's kernels on Hopper, and what the copy engine asks of their layout.
#pragma once

#include "core/checks.hpp"
#include "device/cuda/tensor_map.hpp"
#include "device/mma/layout.hpp"

namespace octet::attention {

// The dimensions of a view of [batch, seq, heads, dim] or [total, heads, dim].
struct HeadsShape {
  std::int64_t batch = 1, seq, heads, dim;
  std::int64_t batch_stride = 0, seq_stride, head_stride;

  explicit HeadsShape(const TensorView& view) {
    const std::size_t first = view.rank == 4 ? 1 : 0;
    if (first == 1) {
      batch = view.shape[0];
      batch_stride = view.strides[0];
    }
    seq = view.shape[first];
    seq_stride = view.strides[first];
    heads = view.shape[first + 1];
    head_stride = view.strides[first + 1];
    dim = view.shape[first + 2];
  }
  bool is_empty() const { return batch == 0 || seq == 0 || heads == 0 || dim == 0; }
};

// Throws where the copy engine cannot read the tensor. It takes addresses in steps of 16 bytes.
inline void check_heads(std::string_view name, const TensorView& view) {
  if (HeadsShape(view).is_empty()) return;
  const int bytes = size_bytes(view.dtype);
  bool fits = reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(view.rank); ++i) {
    fits =
        fits && (view.shape[i] == 1 || (view.strides[i] > 0 && view.strides[i] * bytes % 16 == 0));
  }
  if (fits) return;
  refuse_argument(
      "attention", ": cuda_sm90_wgmma reads and writes heads in pieces of 16 bytes: ", name,
      " must begin at a multiple of 16 bytes and have positive strides of such multiples, got ",
      describe(view), " at ", view.data, "; copy it into an aligned tensor");
}

// Boxes of `box_rows` rows and 64 columns of 16 bits. Empty tensors have no map: nothing of them is read or written.
inline CUtensorMap head_map(std::string_view name, const TensorView& view, bool ragged,
                            int box_rows) {
  const HeadsShape heads(view);
  if (heads.is_empty()) return {};
  check_heads(name, view);
  const int bytes = size_bytes(view.dtype);
  const cuda::HeadsMap map{view.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                     : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                           bytes,
                           view.data,
                           heads.batch,
                           heads.seq,
                           heads.heads,
                           heads.dim,
                           heads.batch_stride * bytes,
                           heads.seq > 1 ? heads.seq_stride * bytes : 16,
                           heads.head_stride * bytes,
                           box_rows,
                           kPanelCols,
                           CU_TENSOR_MAP_SWIZZLE_128B};
  return ragged ? cuda::encode_ragged_heads(map) : cuda::encode_heads(map);
}

}  // namespace octet::attention
