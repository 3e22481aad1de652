#include "core/message.hpp"
#include "device/tensor_map.hpp"

#include <cuda_runtime.h>

namespace octet::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver is asked at run time: the library has no link to it.
Encode encode_function() {
  static const Encode function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                                12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) {
      (void)cudaGetLastError();
      fail(ErrorCode::device_error,
           "cuda: this driver has no cuTensorMapEncodeTiled; 12.0 or newer is needed");
    }
    return reinterpret_cast<Encode>(entry);
  }();
  return function;
}

}  // namespace

CUtensorMap encode(const MatrixMap& matrix) {
  CUtensorMap map{};
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(matrix.cols),
                                 static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(matrix.pitch_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(matrix.box_cols),
                             static_cast<cuuint32_t>(matrix.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result =
      encode_function()(&map, matrix.type, 2, const_cast<void*>(matrix.data), extents, pitch, box,
                        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, matrix.swizzle,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    fail(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refused a ", matrix.rows, " x ",
         matrix.cols, " matrix with a pitch of ", matrix.pitch_bytes, " bytes at ", matrix.data,
         " (driver error ", static_cast<int>(result), ")");
  }
  return map;
}

}  // namespace octet::cuda
