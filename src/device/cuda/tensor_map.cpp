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

// Extents, steps and box by dimension, the contiguous one first; `pitches` begin with the second's. False:
// `result` is why the driver refused.
template <int kRank>
bool encode_tiles(CUtensorMapDataType type, const void* data, CUtensorMapSwizzle swizzle,
                  const cuuint64_t (&extents)[kRank], const cuuint64_t (&pitches)[kRank - 1],
                  const cuuint32_t (&box)[kRank], CUtensorMap& map, CUresult& result) {
  static const auto encode_tiled =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  cuuint32_t steps[kRank];
  std::fill(steps, steps + kRank, 1);
  result = encode_tiled(&map, type, kRank, const_cast<void*>(data), extents, pitches, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS;
}

template <int kRank>
CUtensorMap encode_boxes(const MatrixMap& matrix, const cuuint64_t (&extents)[kRank],
                         const cuuint64_t (&pitches)[kRank - 1], const cuuint32_t (&box)[kRank]) {
  CUtensorMap map{};
  CUresult result{};
  if (!encode_tiles(matrix.type, matrix.data, matrix.swizzle, extents, pitches, box, map, result)) {
    fail(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refused a ", matrix.rows, " x ",
         matrix.cols, " matrix with a pitch of ", matrix.pitch_bytes, " bytes at ", matrix.data,
         " (driver error ", static_cast<int>(result), ")");
  }
  return map;
}

template <int kRank>
CUtensorMap encode_boxes(const HeadsMap& heads, const cuuint64_t (&extents)[kRank],
                         const cuuint64_t (&pitches)[kRank - 1], const cuuint32_t (&box)[kRank]) {
  CUtensorMap map{};
  CUresult result{};
  if (!encode_tiles(heads.type, heads.data, heads.swizzle, extents, pitches, box, map, result)) {
    fail(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refused heads [", heads.batch, ", ",
         heads.seq, ", ", heads.heads, ", ", heads.dim, "] with steps of ", heads.batch_bytes, ", ",
         heads.seq_bytes, " and ", heads.head_bytes, " bytes at ", heads.data, " (driver error ",
         static_cast<int>(result), ")");
  }
  return map;
}

// The step of a dimension of one element is never taken, and may be anything.
cuuint64_t step(std::int64_t extent, std::int64_t bytes) {
  return extent > 1 ? static_cast<cuuint64_t>(bytes) : 16;
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

CUtensorMap encode_heads(const HeadsMap& heads) {
  const cuuint64_t extents[5] = {
      static_cast<cuuint64_t>(heads.dim), static_cast<cuuint64_t>(heads.seq),
      static_cast<cuuint64_t>(heads.heads), static_cast<cuuint64_t>(heads.batch), 1};
  const cuuint64_t pitches[4] = {step(heads.seq, heads.seq_bytes),
                                 step(heads.heads, heads.head_bytes),
                                 step(heads.batch, heads.batch_bytes), 16};
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(heads.box_cols),
                             static_cast<cuuint32_t>(heads.box_rows), 1, 1, 1};
  return encode_boxes<5>(heads, extents, pitches, box);
}

CUtensorMap encode_ragged_heads(const HeadsMap& heads) {
  const auto pitch = static_cast<cuuint64_t>(heads.seq_bytes);
  const cuuint64_t extents[5] = {static_cast<cuuint64_t>(heads.dim), kRaggedExtent,
                                 kMostRaggedExtent, kMostRaggedExtent,
                                 static_cast<cuuint64_t>(heads.heads)};
  const cuuint64_t pitches[4] = {pitch, pitch,
                                 static_cast<cuuint64_t>(ragged_pitch(heads.seq_bytes)),
                                 step(heads.heads, heads.head_bytes)};
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(heads.box_cols),
                             static_cast<cuuint32_t>(heads.box_rows), 1, 1, 1};
  return encode_boxes<5>(heads, extents, pitches, box);
}

}  // namespace octet::cuda
