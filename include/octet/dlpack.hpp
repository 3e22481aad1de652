// Views to and from DLPack, for frameworks that exchange tensors with it. Needs <dlpack/dlpack.h>
// from DLPack 0.6 or later; no other header of octet does.
#pragma once

#include <octet/error.hpp>
#include <octet/tensor.hpp>

#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

namespace octet {

// The FP8 type codes of DLPack 1.1, which older headers do not have.
inline constexpr std::uint8_t kDlpackE4m3 = 10;   // kDLFloat8_e4m3fn
inline constexpr std::uint8_t kDlpackE5m2 = 12;   // kDLFloat8_e5m2
inline constexpr std::uint8_t kDlpackUe8m0 = 14;  // kDLFloat8_e8m0fnu

inline Dtype from_dlpack(DLDataType type) {
  if (type.lanes != 1) {
    throw Error(ErrorCode::unsupported,
                "from_dlpack: vector types are not supported: lanes must be 1, got " +
                    std::to_string(type.lanes));
  }
  if (type.code == kDLFloat && type.bits == 32) return Dtype::f32;
  if (type.code == kDLFloat && type.bits == 16) return Dtype::f16;
  if (type.code == kDLBfloat && type.bits == 16) return Dtype::bf16;
  if (type.code == kDlpackE4m3 && type.bits == 8) return Dtype::e4m3;
  if (type.code == kDlpackE5m2 && type.bits == 8) return Dtype::e5m2;
  if (type.code == kDlpackUe8m0 && type.bits == 8) return Dtype::ue8m0;
  if (type.code == kDLInt && type.bits == 32) return Dtype::i32;
  if (type.code == kDLInt && type.bits == 64) return Dtype::i64;
  throw Error(
      ErrorCode::unsupported,
      "from_dlpack: octet has f32, f16, bf16, e4m3, e5m2, ue8m0, i32 and i64, got type code " +
          std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits");
}

inline DLDataType to_dlpack(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return {kDLFloat, 32, 1};
    case Dtype::f16: return {kDLFloat, 16, 1};
    case Dtype::bf16: return {kDLBfloat, 16, 1};
    case Dtype::e4m3: return {kDlpackE4m3, 8, 1};
    case Dtype::e5m2: return {kDlpackE5m2, 8, 1};
    case Dtype::ue8m0: return {kDlpackUe8m0, 8, 1};
    case Dtype::i32: return {kDLInt, 32, 1};
    case Dtype::i64: return {kDLInt, 64, 1};
  }
  throw Error(ErrorCode::invalid_argument, "to_dlpack: no dtype has the number " +
                                               std::to_string(static_cast<std::int32_t>(dtype)));
}

// CUDA managed memory is used as memory of its CUDA device.
inline Device from_dlpack(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU: return kCpu;
    case kDLCUDA:
    case kDLCUDAManaged: return {DeviceType::cuda, device.device_id};
    default:
      throw Error(
          ErrorCode::unsupported,
          "from_dlpack: device must be kDLCPU (1), kDLCUDA (2) or kDLCUDAManaged (13), got " +
              std::to_string(static_cast<int>(device.device_type)));
  }
}

// A view of the same memory: byte_offset is added to the pointer, absent strides mean dense.
inline TensorView from_dlpack(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    throw Error(ErrorCode::unsupported, "from_dlpack: rank must be between 0 and " +
                                            std::to_string(kMaxRank) + ", got " +
                                            std::to_string(tensor.ndim));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    throw Error(ErrorCode::invalid_argument, "from_dlpack: shape is a null pointer");
  }
  TensorView view;
  view.dtype = from_dlpack(tensor.dtype);
  view.device = from_dlpack(tensor.device);
  view.rank = tensor.ndim;
  if (tensor.data != nullptr) view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  std::int64_t dense = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    view.shape[i] = tensor.shape[i];
    view.strides[i] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    if (tensor.strides == nullptr && __builtin_mul_overflow(dense, tensor.shape[i], &dense)) {
      throw Error(ErrorCode::invalid_argument, "from_dlpack: the shape passes 2^63 elements");
    }
  }
  return view;
}

// A DLTensor of the same memory. Shape and strides stay in `view`, which must outlive the result;
// nothing may write through them.
inline DLTensor to_dlpack(const TensorView& view) {
  DLTensor tensor{};
  tensor.data = view.data;
  tensor.device.device_type = static_cast<DLDeviceType>(view.device.type);
  tensor.device.device_id = view.device.index;
  tensor.ndim = view.rank;
  tensor.dtype = to_dlpack(view.dtype);
  tensor.shape = const_cast<std::int64_t*>(view.shape.data());
  tensor.strides = const_cast<std::int64_t*>(view.strides.data());
  return tensor;
}
DLTensor to_dlpack(const TensorView&& view) = delete;

}  // namespace octet
