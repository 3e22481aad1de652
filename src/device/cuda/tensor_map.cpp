#include "core/message.hpp"
#include "device/cuda/tensor_map.hpp"
#include "device/mma/layout.hpp"
#include "device/scheduler/ragged_rows.hpp"

#include <cuda_runtime.h>

#include <algorithm>

namespace octet::cuda {
namespace {

// A function of the driver, asked for at run time: the library has no link to it.
template <class Function>
Function driver_function(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found);
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    fail(ErrorCode::device_error, "cuda: this driver has no ", name, "; 12.0 or newer is needed");
  }
  return reinterpret_cast<Function>(entry);
}

// Extents, steps and box by dimension, the contiguous one first; `pitches` begin with the second's.
template <int kRank>
CUtensorMap encode_boxes(const MatrixMap& matrix, const cuuint64_t (&extents)[kRank],
                         const cuuint64_t (&pitches)[kRank - 1], const cuuint32_t (&box)[kRank]) {
  static const auto encode_tiled =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap map{};
  cuuint32_t steps[kRank];
  std::fill(steps, steps + kRank, 1);
  const CUresult result =
      encode_tiled(&map, matrix.type, kRank, const_cast<void*>(matrix.data), extents, pitches, box,
                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, matrix.swizzle,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    fail(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refused a ", matrix.rows, " x ",
         matrix.cols, " matrix with a pitch of ", matrix.pitch_bytes, " bytes at ", matrix.data,
         " (driver error ", static_cast<int>(result), ")");
  }
  return map;
}

}  // namespace

CUtensorMap encode(const MatrixMap& matrix) {
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(matrix.cols),
                                 static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(matrix.pitch_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(matrix.box_cols),
                             static_cast<cuuint32_t>(matrix.box_rows)};
  return encode_boxes<2>(matrix, extents, pitch, box);
}

void replace_address(CUtensorMap& map, const void* data) {
  static const auto replace =
      driver_function<decltype(&cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  if (const CUresult result = replace(&map, const_cast<void*>(data)); result != CUDA_SUCCESS) {
    fail(ErrorCode::device_error, "cuda: cuTensorMapReplaceAddress refused the address ", data,
         " (driver error ", static_cast<int>(result), ")");
  }
}

// Row 4t + 2h + p of a group goes where row 8h + 2t + p of the box lies: p, t and h are dimensions
// in the order of the box, with the steps they have in the matrix.
CUtensorMap encode_paired_rows(const MatrixMap& matrix) {
  const auto pitch = static_cast<cuuint64_t>(matrix.pitch_bytes);
  const cuuint64_t extents[5] = {static_cast<cuuint64_t>(matrix.cols), 2, 4, 2,
                                 static_cast<cuuint64_t>(matrix.rows / kPairedGroup)};
  const cuuint64_t pitches[4] = {pitch, 4 * pitch, 2 * pitch, kPairedGroup * pitch};
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(matrix.box_cols), 2, 4, 2,
                             static_cast<cuuint32_t>(matrix.box_rows / kPairedGroup)};
  return encode_boxes<5>(matrix, extents, pitches, box);
}

CUtensorMap encode_batch(const MatrixMap& matrix, std::int64_t batch, std::int64_t apart_bytes) {
  const cuuint64_t extents[3] = {static_cast<cuuint64_t>(matrix.cols),
                                 static_cast<cuuint64_t>(matrix.rows),
                                 static_cast<cuuint64_t>(batch)};
  const cuuint64_t pitches[2] = {static_cast<cuuint64_t>(matrix.pitch_bytes),
                                 static_cast<cuuint64_t>(apart_bytes)};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(matrix.box_cols),
                             static_cast<cuuint32_t>(matrix.box_rows), 1};
  return encode_boxes<3>(matrix, extents, pitches, box);
}

CUtensorMap encode_ragged_rows(const MatrixMap& matrix) {
  const cuuint64_t extents[4] = {static_cast<cuuint64_t>(matrix.cols), kRaggedExtent,
                                 kMostRaggedExtent, kMostRaggedExtent};
  const auto pitch = static_cast<cuuint64_t>(matrix.pitch_bytes);
  const cuuint64_t pitches[3] = {pitch, pitch,
                                 static_cast<cuuint64_t>(ragged_pitch(matrix.pitch_bytes))};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(matrix.box_cols),
                             static_cast<cuuint32_t>(matrix.box_rows), 1, 1};
  return encode_boxes<4>(matrix, extents, pitches, box);
}

}  // namespace octet::cuda
