// The reference product on the device: value = sum over k of a * b and magnitude = sum over k of |a
// * b|, in f64 and in the order of k. A block computes a quarter of a 128x128 tile: it decodes 64
// rows of a and of b into shared memory, 16 elements of K at a time, and each thread sums 4x4
// outputs. Shares no code with src/ops; the values of FP8 codes come from the table in decode.cpp.
#include "check/cuda_gates.hpp"
#include "check/reference/reference.hpp"
#include "core/message.hpp"
#include "device/cuda/launch.hpp"

#include <cuda_fp16.h>

#include <bit>

namespace octet::cuda {
namespace {

constexpr int kSide = kTile / 2;               // rows and columns of a block's outputs
constexpr int kDepth = 16;                     // elements of K at a time
constexpr int kThreadsAcross = 16;             // 16x16 threads
constexpr int kEach = kSide / kThreadsAcross;  // 4x4 outputs per thread
constexpr int kBlockThreads = kThreadsAcross * kThreadsAcross;
constexpr int kAllShift = 62;  // no tensor has as many rows

// One operand as the kernel sees it: [rows, K].
struct Operand {
  const void* values;
  Dtype dtype;
  std::int64_t row_stride;
  std::int64_t k_stride;
  const float* scales;  // or null
  std::int64_t scale_row_stride;
  std::int64_t scale_k_stride;
  int block_row_shift;  // a block has 2^shift rows, kAllShift: all
  int block_k_shift;
  const double* fp8_values;  // [256]
};

struct Params {
  Operand a;
  Operand b;
  const std::int64_t* rows;  // of a, [row_count]
  std::int64_t row_count;
  std::int64_t b_rows;  // N
  std::int64_t k;
  std::int64_t col_tiles;
  std::int64_t first_tile;
  double* value;     // [tile][kTile][kTile]
  float* magnitude;  // the same, or null
};

// The odd pitch avoids bank conflicts between the rows of a column.
struct SharedStorage {
  double fp8_values[2][256];    // of the codes of a, of b
  double a[kDepth][kSide + 1];  // (k, row)
  double b[kDepth][kSide + 1];  // (k, row of b)
};

__device__ double unscaled(const Operand& x, std::int64_t index, const double* fp8_values) {
  switch (x.dtype) {
    case Dtype::f32: return static_cast<const float*>(x.values)[index];
    case Dtype::f16: return __half2float(static_cast<const __half*>(x.values)[index]);
    case Dtype::bf16:  // the upper half of f32
      return __uint_as_float(unsigned{static_cast<const unsigned short*>(x.values)[index]} << 16);
    default: return fp8_values[static_cast<const unsigned char*>(x.values)[index]];
  }
}

__device__ double element(const Operand& x, std::int64_t row, std::int64_t k,
                          const double* fp8_values) {
  const double value = unscaled(x, row * x.row_stride + k * x.k_stride, fp8_values);
  if (x.scales == nullptr) return value;
  return value * x.scales[(row >> x.block_row_shift) * x.scale_row_stride +
                          (k >> x.block_k_shift) * x.scale_k_stride];
}

// Decodes 64 rows by 16 elements of K; zero outside the operand. Neighbouring threads read
// neighbouring elements. `list`: the rows of the operand to take, or null for all.
__device__ void decode_rows(const Operand& x, const std::int64_t* list, std::int64_t first_row,
                            std::int64_t row_end, std::int64_t first_k, std::int64_t k_end,
                            const double* fp8_values, double (&to)[kDepth][kSide + 1]) {
  for (int i = threadIdx.x; i < kSide * kDepth; i += kBlockThreads) {
    const bool along_k = x.k_stride <= x.row_stride;
    const int row = along_k ? i / kDepth : i % kSide;
    const int depth = along_k ? i % kDepth : i / kSide;
    const std::int64_t listed = first_row + row;
    const std::int64_t k = first_k + depth;
    to[depth][row] = listed < row_end && k < k_end
                         ? element(x, list == nullptr ? listed : list[listed], k, fp8_values)
                         : 0;
  }
}

__device__ void store_outputs(const Params& p, std::int64_t tile, int first_row, int first_col,
                              const double (&value)[kEach][kEach],
                              const double (&magnitude)[kEach][kEach]) {
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t at = tile * kTile * kTile + (first_row + i * kThreadsAcross) * kTile +  //
                              first_col + j * kThreadsAcross;
      p.value[at] = value[i][j];
      if (p.magnitude != nullptr) p.magnitude[at] = static_cast<float>(magnitude[i][j]);
    }
  }
}

__global__ void __launch_bounds__(kBlockThreads) reference_product(Params p) {
  __shared__ SharedStorage shared;
  for (int code = threadIdx.x; code < 256; code += kBlockThreads) {
    shared.fp8_values[0][code] = p.a.fp8_values[code];
    shared.fp8_values[1][code] = p.b.fp8_values[code];
  }

  // The tile of this block, and its quarter
  const std::int64_t tile = blockIdx.x / 4;
  const int quarter_row = blockIdx.x % 4 / 2 * kSide;
  const int quarter_col = blockIdx.x % 2 * kSide;
  const std::int64_t row = (p.first_tile + tile) / p.col_tiles * kTile + quarter_row;
  const std::int64_t col = (p.first_tile + tile) % p.col_tiles * kTile + quarter_col;
  if (row >= p.row_count || col >= p.b_rows) return;  // outside the product

  const int my_row = threadIdx.x / kThreadsAcross;
  const int my_col = threadIdx.x % kThreadsAcross;
  double value[kEach][kEach] = {};
  double magnitude[kEach][kEach] = {};
  for (std::int64_t k = 0; k < p.k; k += kDepth) {
    __syncthreads();
    decode_rows(p.a, p.rows, row, p.row_count, k, p.k, shared.fp8_values[0], shared.a);
    decode_rows(p.b, nullptr, col, p.b_rows, k, p.k, shared.fp8_values[1], shared.b);
    __syncthreads();
    for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const double a = shared.a[depth][my_row + i * kThreadsAcross];
          const double b = shared.b[depth][my_col + j * kThreadsAcross];
          value[i][j] = fma(a, b, value[i][j]);
          magnitude[i][j] = fma(fabs(a), fabs(b), magnitude[i][j]);
        }
      }
    }
  }
  store_outputs(p, tile, quarter_row + my_row, quarter_col + my_col, value, magnitude);
}

int shift_of(std::int64_t extent) {
  if (extent == kAll) return kAllShift;
  if (extent < 1 || !std::has_single_bit(static_cast<std::uint64_t>(extent))) {
    refuse_argument("reference product: extents of a block must be powers of two, got ", extent);
  }
  return std::countr_zero(static_cast<std::uint64_t>(extent));
}

Operand operand_of(const QuantizedView& view, const double* fp8_values) {
  Operand operand{};
  operand.values = view.values.data;
  operand.dtype = view.values.dtype;
  operand.row_stride = view.values.strides[0];
  operand.k_stride = view.values.strides[1];
  operand.fp8_values = fp8_values;
  if (view.scales.data == nullptr) return operand;
  if (view.scales.dtype != Dtype::f32) {
    refuse_argument("reference product: scales on a CUDA device must be f32, got ",
                    name(view.scales.dtype));
  }
  operand.scales = static_cast<const float*>(view.scales.data);
  operand.scale_row_stride = view.scales.strides[0];
  operand.scale_k_stride = view.scales.strides[1];
  operand.block_row_shift = shift_of(view.block.rows);
  operand.block_k_shift = shift_of(view.block.cols);
  return operand;
}

}  // namespace

void multiply_tiles(const TileBatch& batch) {
  Params params{};
  params.a = operand_of(batch.a, batch.fp8_values[0]);
  params.b = operand_of(batch.b, batch.fp8_values[1]);
  params.rows = batch.rows;
  params.row_count = batch.row_count;
  params.b_rows = batch.b.values.rows();
  params.k = batch.a.values.cols();
  params.col_tiles = (params.b_rows + kTile - 1) / kTile;
  params.first_tile = batch.first_tile;
  params.value = batch.value;
  params.magnitude = batch.magnitude;
  const DeviceScope scope(batch.a.values.device.index);
  reference_product<<<static_cast<unsigned>(batch.tile_count * 4), kBlockThreads>>>(params);
  check(cudaGetLastError(), "launch of the reference product");
  check(cudaDeviceSynchronize(), "the reference product");
}

}  // namespace octet::cuda
