// The rotation that rope and rms_norm_rope share, as C callers give it.
#pragma once

#include "c_api/read.hpp"

namespace octet::c_api {

inline Rotation read_rotation(std::string_view op, const octet_rotation& c) {
  Rotation rotation;
  rotation.style = static_cast<RopeStyle>(c.style);
  rotation.rotary_dim = c.rotary_dim;
  rotation.cache_rows = c.cache_rows;
  rotation.full_cache = read_flag(op, "full_cache", c.full_cache);
  rotation.cache = read_dtype(op, "cache", c.cache);
  if (c.positions != 0) rotation.positions = read_dtype(op, "positions", c.positions);
  return rotation;
}

inline RotationArgs read_rotation_args(std::string_view op, const Rotation& rotation,
                                       const octet_rotation_args& c) {
  RotationArgs args;
  args.cos = read_tensor(op, "cos", c.cos);
  args.sin = read_tensor(op, "sin", c.sin);
  if (rotation.positions) args.positions = read_tensor(op, "positions", c.positions);
  return args;
}

}  // namespace octet::c_api
