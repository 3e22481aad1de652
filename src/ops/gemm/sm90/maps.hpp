// Tensor maps of the Hopper product's operands, scales and results, dense and over groups, and how a plan
// keeps them from run to run.
#pragma once

#include "core/checks.hpp"
#include "device/cuda/tensor_map.hpp"
#include "ops/gemm/sm90/config.hpp"

#include <octet/quantized.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace octet::sm90 {

inline cuda::MatrixMap operand_map(const TensorView& values, int box_rows) {
  const int bytes = size_bytes(values.dtype);
  const std::int64_t pitch =
      (values.rows() > 1 ? values.strides[0] : round_up(values.cols(), 16)) * bytes;
  return {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,     values.data, values.rows(),
          values.cols() * bytes,         pitch, box_rows,    kSliceBytes,
          CU_TENSOR_MAP_SWIZZLE_128B};
}

// An mn-major operand [rows, K] of 16-bit elements, whose rows are contiguous: boxes of 64 rows by `box_k`.
inline cuda::MatrixMap panel_map(const TensorView& values, int box_k) {
  const int bytes = size_bytes(values.dtype);
  const std::int64_t pitch =
      (values.cols() > 1 ? values.strides[1] : round_up(values.rows(), 16)) * bytes;
  return {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,     values.data, values.cols(),
          values.rows() * bytes,         pitch, box_k,       kSliceBytes,
          CU_TENSOR_MAP_SWIZZLE_128B};
}

inline bool is_aligned16(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

// Lines of FP8 operands are checked with the call; those of 16-bit ones may start anywhere where they are not loaded
// through tensor maps. One of the last two dimensions is contiguous.
inline void check_lines16(std::string_view op, const char* argument, const TensorView& values,
                          std::string_view way_out = "") {
  bool aligned = is_aligned16(values);
  for (int i = 0; i < values.rank; ++i) {
    aligned = aligned && (values.shape[i] == 1 || values.strides[i] == 1 ||
                          values.strides[i] * size_bytes(values.dtype) % 16 == 0);
  }
  if (aligned) return;
  refuse_argument(op, ": cuda_sm90_wgmma needs ", argument,
                  " on 16-byte boundaries, address and strides, got address ", values.data, " and ",
                  describe(values), way_out);
}

// 1x128 scales as the kernel reads them: [slice][row].
inline CUtensorMap scale_map(std::string_view op, const char* argument, const TensorView& scales,
                             int box_rows) {
  const bool one_slice = scales.cols() == 1;
  if ((scales.rows() > 1 && scales.strides[0] != 1) || (!one_slice && scales.strides[1] % 4 != 0) ||
      reinterpret_cast<std::uintptr_t>(scales.data) % 16 != 0) {
    refuse_argument(op, ": scale of ", argument,
                    " must be contiguous along the rows, with 16-byte slices, got ",
                    describe(scales), "; repack copies it into such a layout");
  }
  const std::int64_t pitch = one_slice ? round_up(scales.rows(), 4) : scales.strides[1];
  return cuda::encode({CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, scales.data, scales.cols(),
                       scales.rows(), pitch * 4, 1, box_rows, CU_TENSOR_MAP_SWIZZLE_NONE});
}

// 128x128 scales, of which the kernel copies four slices of a row at a time.
inline void check_square_scales(std::string_view op, const TensorView& scales) {
  if ((scales.cols() > 1 && scales.strides[1] != 1) ||
      (scales.rows() > 1 && scales.strides[0] % 4 != 0) ||
      reinterpret_cast<std::uintptr_t>(scales.data) % 16 != 0) {
    refuse_argument(op,
                    ": scale of b must be contiguous along the contraction, with rows padded to "
                    "16 bytes, got ",
                    describe(scales), "; repack copies it into such a layout");
  }
}

// Results in boxes of so many rows by up to 128 bytes.
inline cuda::MatrixMap output_map(const TensorView& d, const Sm90GemmConfig& config, int box_rows) {
  const int bytes = size_bytes(d.dtype);
  const std::int64_t pitch = d.rows() > 1 ? d.strides[0] * bytes : round_up(d.cols() * bytes, 16);
  const CUtensorMapDataType type = d.dtype == Dtype::f32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : d.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const int cols = box_cols(config, bytes);
  return {type,
          bytes,
          d.data,
          d.rows(),
          d.cols(),
          pitch,
          box_rows,
          cols,
          cols * bytes == kBoxBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B};
}

// The maps that the first run encoded, and what they depend on besides the addresses. Later runs of the same
// strides copy them and replace the addresses.
template <class Strides, class Maps>
class MapCache {
 public:
  MapCache() = default;
  ~MapCache() { delete kept_.load(); }
  MapCache(const MapCache&) = delete;
  MapCache& operator=(const MapCache&) = delete;

  // Null where maps of other strides, or none, are kept.
  const Maps* find(const Strides& strides) const {
    const Entry* kept = kept_.load(std::memory_order_acquire);
    return kept != nullptr && kept->strides == strides ? &kept->maps : nullptr;
  }
  void keep(const Strides& strides, const Maps& maps) {
    if (kept_.load(std::memory_order_relaxed) != nullptr) return;
    auto made = std::make_unique<const Entry>(Entry{strides, maps});
    const Entry* none = nullptr;
    if (kept_.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) {
      (void)made.release();
    }
  }

 private:
  struct Entry {
    Strides strides;
    Maps maps;
  };
  std::atomic<const Entry*> kept_{nullptr};  // set once, by whichever run is first
};

}  // namespace octet::sm90
