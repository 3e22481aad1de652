// A vector of i32 or i64, whichever the caller has.
#pragma once

#include <octet/tensor.hpp>

#include <cstdint>

namespace octet::sm90 {

struct Integers {
  const void* data;
  bool wide;  // i64, else i32

  __device__ __forceinline__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i]
                : static_cast<const std::int32_t*>(data)[i];
  }
};

inline Integers integers_of(const TensorView& view) {
  return {view.data, view.dtype == Dtype::i64};
}

}  // namespace octet::sm90
