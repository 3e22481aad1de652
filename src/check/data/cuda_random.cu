// fill_random on the device: a thread turns one counter into four numbers. Compiled with
// --fmad=false, so that products and sums are rounded separately, as on the CPU.
#include "check/data/cuda_elements.cuh"
#include "check/cuda_gates.hpp"
#include "core/checks.hpp"

namespace octet::cuda {
namespace {

constexpr std::int64_t kCounters = 16;  // of a group of 64 numbers (random.hpp)

struct Target {
  void* data;
  Dtype dtype;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;
  Distribution distribution;
  RandomStream stream;
};

__device__ void store(const Target& target, std::int64_t index, float value) {
  switch (target.dtype) {
    case Dtype::f32: static_cast<float*>(target.data)[index] = value; break;
    case Dtype::f16: static_cast<std::uint16_t*>(target.data)[index] = f16_from_f32(value); break;
    default: static_cast<std::uint16_t*>(target.data)[index] = bf16_from_f32(value); break;
  }
}

__device__ void place(const Target& target, std::int64_t number, float value) {
  const std::int64_t row = number / target.cols;
  const std::int64_t col = number % target.cols;
  if (target.distribution == Distribution::one_signed) value = fabsf(value);
  if (target.distribution == Distribution::outliers) {
    value *= outlier(target.stream, static_cast<std::uint64_t>(number));
  }
  if (target.distribution == Distribution::skewed) {
    const std::int64_t blocks_per_row = (target.cols + 127) / 128;
    value *=
        skew(target.stream, static_cast<std::uint64_t>(row / 128 * blocks_per_row + col / 128));
  }
  store(target, row * target.row_stride + col, value);
}

struct FillGroup {
  Target target;

  __device__ void operator()(std::int64_t group, std::int64_t lane) const {
    const PhiloxBlock block = random_words(target.stream, RandomUse::value,
                                           static_cast<std::uint64_t>(group * kCounters + lane));
    for (int word = 0; word < 4; ++word) {
      const std::int64_t number = group * 4 * kCounters + word * kCounters + lane;
      if (number >= target.rows * target.cols) continue;
      place(target, number, normal_from_bits(block.word[word]));
    }
  }
};

}  // namespace

void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream) {
  const Target target{matrix.data,       matrix.dtype, matrix.rows(), matrix.cols(),
                      matrix.strides[0], distribution, stream};
  for_each_element(matrix.device, ceil_div(matrix.rows() * matrix.cols(), 4 * kCounters), kCounters,
                   FillGroup{target});
}

}  // namespace octet::cuda
