// From the views of a call to the FP8 copies that the kernels take.
#pragma once

#include "core/checks.hpp"
#include "ops/quantize/cuda_sm90_patch.cuh"

#include <octet/ops/fp8_output.hpp>

namespace octet::sm90 {

inline QuantizedCopy copy_of(const std::optional<BlockShape>& block, const QuantizedView& view) {
  QuantizedCopy copy{};
  if (!block) return copy;
  copy.kind = *block == kBlock128x128 ? ScaleKind::square : ScaleKind::lines;
  copy.values = static_cast<std::uint8_t*>(view.values.data);
  copy.pitch = view.values.strides[0];
  copy.scales = static_cast<float*>(view.scales.data);
  copy.scale_strides[0] = view.scales.strides[0];
  copy.scale_strides[1] = view.scales.strides[1];
  copy.owns_padding = view.owns_padding;
  copy.scale_pitch =
      copy.kind == ScaleKind::lines ? view.scales.strides[1] : view.scales.strides[0];
  return copy;
}

// For an output [rows, cols]. The input stays empty: only the quantiser reads one from memory.
inline QuantizeParams copies_of(const Fp8Output& fp8, const Fp8Copies& copies, std::int64_t rows,
                                std::int64_t cols) {
  QuantizeParams params{};
  params.rows = rows;
  params.cols = cols;
  params.tiles_across = static_cast<unsigned>(ceil_div(cols, kBlock));
  params.limit = fp8_format(fp8.format).limit;
  params.amax_floor = fp8.amax_floor;
  params.pow2_scales = fp8.pow2_scales;
  params.out = copy_of(fp8.block, copies.out);
  params.transposed = copy_of(fp8.transposed_block, copies.transposed);
  return params;
}

}  // namespace octet::sm90
