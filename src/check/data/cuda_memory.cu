// Fills, counts, copies and compares device memory.
#include "check/data/cuda_elements.cuh"
#include "check/cuda_gates.hpp"

#include <cuda_fp16.h>

namespace octet::cuda {
namespace {

// A matrix as kernels take it.
struct Elements {
  void* data;
  std::int64_t strides[2];
  Dtype dtype;
  int element_bytes;

  explicit Elements(const TensorView& matrix)
      : data(matrix.data),
        strides{matrix.strides[0], matrix.strides[1]},
        dtype(matrix.dtype),
        element_bytes(static_cast<int>(size_bytes(matrix.dtype))) {}

  __device__ std::int64_t index(std::int64_t row, std::int64_t col) const {
    return row * strides[0] + col * strides[1];
  }
  __device__ std::uint32_t bits(std::int64_t row, std::int64_t col) const {
    return bits_at(data, index(row, col), element_bytes);
  }
  __device__ void set_bits(std::int64_t row, std::int64_t col, std::uint32_t bits) const {
    const std::int64_t i = index(row, col);
    switch (element_bytes) {
      case 1: static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(bits); break;
      case 2: static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits); break;
      default: static_cast<std::uint32_t*>(data)[i] = bits; break;
    }
  }
};

__device__ bool is_finite_f32(std::uint32_t bits) { return (bits & 0x7F800000u) != 0x7F800000u; }

struct HasBits {
  const unsigned char* data;
  std::int64_t pitch;
  std::uint32_t bits;
  int element_bytes;

  __device__ Tally operator()(std::int64_t row, std::int64_t col) const {
    return {bits_at(data + row * pitch, col, element_bytes) == bits ? 1ull : 0ull, 0};
  }
};

struct IsNotFinite {
  const unsigned char* data;
  std::int64_t pitch;

  __device__ Tally operator()(std::int64_t row, std::int64_t col) const {
    return {is_finite_f32(bits_at(data + row * pitch, col, 4)) ? 0ull : 1ull, 0};
  }
};

struct Difference {
  Elements x;
  Elements y;

  __device__ Tally operator()(std::int64_t row, std::int64_t col) const {
    const std::uint32_t left = x.bits(row, col);
    const std::uint32_t right = y.bits(row, col);
    if (left == right) return {};
    return {1, static_cast<unsigned long long>(ulps_apart(left, right, x.dtype))};
  }
};

// Finite f32 magnitudes have the same order as their bits.
struct FiniteMagnitude {
  Elements matrix;

  __device__ Tally operator()(std::int64_t row, std::int64_t col) const {
    std::uint32_t bits = matrix.bits(row, col);
    if (matrix.dtype == Dtype::bf16) bits <<= 16;
    if (matrix.dtype == Dtype::f16) {
      bits = __float_as_uint(__half2float(__ushort_as_half(static_cast<unsigned short>(bits))));
    }
    return {0, is_finite_f32(bits) ? bits & 0x7FFFFFFFu : 0};
  }
};

struct CopyElement {
  Elements from;
  Elements to;

  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    to.set_bits(row, col, from.bits(row, col));
  }
};

struct GatherElement {
  Elements from;
  Elements to;
  const std::int64_t* rows;

  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    to.set_bits(row, col, from.bits(rows[row], col));
  }
};

const unsigned char* bytes_of(const Rectangle& rectangle) {
  return static_cast<const unsigned char*>(rectangle.data);
}

}  // namespace

void fill(const Rectangle& rectangle, unsigned char byte) {
  const DeviceScope scope(rectangle.device.index);
  const auto row_bytes = static_cast<std::size_t>(rectangle.row_bytes);
  if (rectangle.rows == 1) {
    check(cudaMemset(rectangle.data, byte, row_bytes), "cudaMemset");
  } else {
    check(cudaMemset2D(rectangle.data, static_cast<std::size_t>(rectangle.pitch), byte, row_bytes,
                       static_cast<std::size_t>(rectangle.rows)),
          "cudaMemset2D");
  }
  check(cudaDeviceSynchronize(), "filling memory");
}

std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes) {
  const HasBits measure{bytes_of(rectangle), rectangle.pitch, bits, element_bytes};
  return static_cast<std::int64_t>(
      tally(rectangle.device, rectangle.rows, rectangle.row_bytes / element_bytes, measure).count);
}

std::int64_t count_not_finite(const Rectangle& rectangle) {
  const IsNotFinite measure{bytes_of(rectangle), rectangle.pitch};
  return static_cast<std::int64_t>(
      tally(rectangle.device, rectangle.rows, rectangle.row_bytes / 4, measure).count);
}

OutputDifferences compare_whole_outputs(const TensorView& x, const TensorView& y) {
  const Tally found = tally(x.device, x.rows(), x.cols(), Difference{Elements(x), Elements(y)});
  return {static_cast<std::int64_t>(found.count), static_cast<std::int64_t>(found.largest)};
}

double largest_finite(const TensorView& matrix) {
  const Tally found =
      tally(matrix.device, matrix.rows(), matrix.cols(), FiniteMagnitude{Elements(matrix)});
  return f32_from_bits(static_cast<std::uint32_t>(found.largest));
}

void copy(const Rectangle& from, const Rectangle& to) {
  const DeviceScope scope(from.device.index);
  const auto row_bytes = static_cast<std::size_t>(from.row_bytes);
  if (from.rows == 1) {  // the pitch of a single row may be meaningless
    check(cudaMemcpy(to.data, from.data, row_bytes, cudaMemcpyDefault), "cudaMemcpy");
  } else {
    check(cudaMemcpy2D(to.data, static_cast<std::size_t>(to.pitch), from.data,
                       static_cast<std::size_t>(from.pitch), row_bytes,
                       static_cast<std::size_t>(from.rows), cudaMemcpyDefault),
          "cudaMemcpy2D");
  }
  check(cudaDeviceSynchronize(), "a copy of rows");
}

void copy_matrix(const TensorView& from, const TensorView& to) {
  for_each_element(from.device, from.rows(), from.cols(),
                   CopyElement{Elements(from), Elements(to)});
}

void gather_rows(const TensorView& matrix, const std::int64_t* rows, const TensorView& to) {
  for_each_element(matrix.device, to.rows(), to.cols(),
                   GatherElement{Elements(matrix), Elements(to), rows});
}

}  // namespace octet::cuda
