// Backward of rms_norm_rope as its Hopper launchers take it.
#pragma once

#include "ops/rope/rotation.hpp"

#include <vector>

namespace octet::sm90 {

// q, or k.
struct RotatedBackSide {
  std::int64_t heads = 0;
  TensorView dout;
  TensorView x;
  TensorView g;
  TensorView rstd;
  TensorView dx;
  float* partials = nullptr;  // [blocks, columns of dg]
};

struct RotateBackCall {
  RotatedHeads heads;
  RotationArgs rotation;
  bool one_plus_weight = false;
  std::int64_t blocks = 0;  // of each of q and k
  std::vector<RotatedBackSide> sides;
  void* stream = nullptr;
};

}  // namespace octet::sm90
