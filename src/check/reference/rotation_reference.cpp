#include "check/reference/rotation_reference.hpp"

#include "check/data/random.hpp"
#include "check/reference/decode.hpp"
#include "core/numeric.hpp"
#include "device/cuda_runtime.hpp"

#include <cmath>
#include <cstring>

namespace octet {
namespace {

// Distinct from the streams that make the tensors.
constexpr std::uint32_t kPositionStream = 0x70;

Tensor on_device(const void* host, Dtype dtype, std::int64_t rows, std::int64_t cols,
                 Device device) {
  Tensor tensor(dtype, {rows, cols}, device);
  if (device.type == DeviceType::cuda) {
    cuda::copy(tensor.data(), host, tensor.bytes(), device.index);
  } else {
    std::memcpy(tensor.data(), host, tensor.bytes());
  }
  return tensor;
}

// Angle per position of each pair, in radians.
std::vector<double> frequencies(std::int64_t pairs) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < pairs; ++i) {
    result.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs)));
  }
  return result;
}

}  // namespace

RotationReference::RotationReference(const Rotation& rotation, const TokenShape& shape,
                                     std::uint64_t seed)
    : interleaved_(rotation.style == RopeStyle::interleaved),
      full_cache_(rotation.full_cache),
      seq_(shape.seq),
      head_dim_(shape.head_dim),
      pairs_((rotation.rotary_dim == 0 ? shape.head_dim : rotation.rotary_dim) / 2),
      rows_(rotation.cache_rows == 0 ? shape.seq : rotation.cache_rows) {
  make_caches(rotation.cache_dtype, shape.device);
  if (rotation.positions_dtype) make_positions(*rotation.positions_dtype, shape, seed);
}

void RotationReference::make_caches(Dtype dtype, Device device) {
  const std::int64_t cols = full_cache_ ? 2 * pairs_ : pairs_;
  const Tensor cos(dtype, {rows_, cols});
  const Tensor sin(dtype, {rows_, cols});
  const std::vector<double> by_pair = frequencies(pairs_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t pair = 0; pair < pairs_; ++pair) {
      const double angle = static_cast<double>(row) * by_pair[static_cast<std::size_t>(pair)];
      const std::int64_t first = row * cols + (full_cache_ && interleaved_ ? 2 * pair : pair);
      const std::int64_t again = full_cache_ ? first + (interleaved_ ? 1 : pairs_) : first;
      for (const std::int64_t index : {first, again}) {
        store_f32(cos.data(), index, dtype, static_cast<float>(std::cos(angle)));
        store_f32(sin.data(), index, dtype, static_cast<float>(std::sin(angle)));
      }
      cos_values_.push_back(decode(cos.data(), first, dtype));
      sin_values_.push_back(decode(sin.data(), first, dtype));
    }
  }
  cos_ = on_device(cos.data(), dtype, rows_, cols, device);
  sin_ = on_device(sin.data(), dtype, rows_, cols, device);
}

void RotationReference::make_positions(Dtype dtype, const TokenShape& shape, std::uint64_t seed) {
  const std::int64_t tokens = shape.batch * shape.seq;
  std::vector<std::int32_t> narrow;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::uint32_t position =
        random_below({seed, kPositionStream}, RandomUse::value, static_cast<std::uint64_t>(i),
                     static_cast<std::uint32_t>(rows_));
    position_values_.push_back(position);
    narrow.push_back(static_cast<std::int32_t>(position));
  }
  const void* host = dtype == Dtype::i32 ? static_cast<const void*>(narrow.data())
                                         : static_cast<const void*>(position_values_.data());
  positions_ = on_device(host, dtype, shape.batch, shape.seq, shape.device);
}

void RotationReference::rotate(std::int64_t token, bool inverse, std::span<double> row) const {
  const std::int64_t position =
      position_values_.empty() ? token % seq_ : position_values_[static_cast<std::size_t>(token)];
  const double* cos = cos_values_.data() + position * pairs_;
  const double* sin = sin_values_.data() + position * pairs_;
  const std::int64_t step = interleaved_ ? 2 : 1;        // from pair to pair
  const std::int64_t apart = interleaved_ ? 1 : pairs_;  // inside a pair
  for (auto head = row.begin(); head != row.end(); head += head_dim_) {
    for (std::int64_t pair = 0; pair < pairs_; ++pair) {
      double& a = head[pair * step];
      double& b = head[pair * step + apart];
      const double s = inverse ? -sin[pair] : sin[pair];
      const double rotated = a * cos[pair] - b * s;
      b = b * cos[pair] + a * s;
      a = rotated;
    }
  }
}

TensorView as_heads(const TensorView& matrix, const TokenShape& shape) {
  TensorView view = matrix;
  view.rank = 4;
  view.shape = {shape.batch, shape.seq, matrix.cols() / shape.head_dim, shape.head_dim};
  view.strides = {shape.seq * matrix.strides[0], matrix.strides[0], shape.head_dim, 1};
  return view;
}

}  // namespace octet
