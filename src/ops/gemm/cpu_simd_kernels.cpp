// The kernels of the cpu_simd product, compiled once for AVX2 and once for AVX-512. Every output is
// one lane: its slice is the same chain of FMAs on each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "ops/gemm/cpu_simd.hpp"

#include <array>
#include <cstring>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace {

constexpr F32 kF32;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(kF32));
constexpr std::int64_t kPair = 2 * kLanes;  // what a decoder reads at a time

// Up to two vectors of consecutive elements; zero beyond `count`.
template <class Decode>
HWY_INLINE void load_some(const typename Decode::Storage* from, std::int64_t count,
                          hn::Vec<F32>& low, hn::Vec<F32>& high) {
  if (HWY_LIKELY(count >= kPair)) {
    Decode::load(from, low, high);
    return;
  }
  typename Decode::Storage buffer[kPair] = {};
  if (count > 0) {
    std::memcpy(buffer, from, static_cast<std::size_t>(count) * sizeof(buffer[0]));
  }
  Decode::load(buffer, low, high);
}

// Four lines by a vector of k, transposed inside each 128-bit block:
// block i of out[j] has k = 4i + j.
HWY_INLINE void transpose_blocks(const hn::Vec<F32> (&lines)[4], hn::Vec<F32> (&out)[4]) {
  const hn::RepartitionToWide<F32> d64;
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(kF32, lines[0], lines[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(kF32, lines[2], lines[3]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(kF32, lines[0], lines[1]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(kF32, lines[2], lines[3]));
  out[0] = hn::BitCast(kF32, hn::InterleaveLower(d64, low01, low23));
  out[1] = hn::BitCast(kF32, hn::InterleaveUpper(d64, low01, low23));
  out[2] = hn::BitCast(kF32, hn::InterleaveLower(d64, high01, high23));
  out[3] = hn::BitCast(kF32, hn::InterleaveUpper(d64, high01, high23));
}

// Stores the 128-bit blocks of a vector `step` floats apart.
template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> vector, float* to, std::int64_t step) {
  if constexpr (hn::MaxLanes(d) == 4) {
    hn::StoreU(vector, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, vector), to, step);
    store_blocks(half, hn::UpperHalf(half, vector), to + hn::MaxLanes(d) / 8 * step, step);
  }
}

// Stores four lines by a vector of k as [k][line].
template <std::int64_t kPanelLines>
HWY_INLINE void store_transposed(const hn::Vec<F32> (&lines)[4], float* to) {
  hn::Vec<F32> blocks[4];
  transpose_blocks(lines, blocks);
  for (std::int64_t i = 0; i < 4; ++i) {
    store_blocks(kF32, blocks[i], to + i * kPanelLines, 4 * kPanelLines);
  }
}

// A slice is contiguous: [line][k] is transposed to [k][line].
template <class Decode, std::int64_t kPanelLines>
void pack_k_major(const PackTask& task, std::int64_t valid) {
  static_assert(kBlock % kPair == 0, "a load would read two slices");
  const OperandLines& operand = *task.operand;
  const auto* data = static_cast<const typename Decode::Storage*>(operand.values);
  // k outermost, so that what is written stays in the L1 cache until its lines are full.
  for (std::int64_t k = 0; k < task.depth; k += kPair) {
    const auto* lines = data + operand.offset(task.line, task.k + k);
    for (std::int64_t line = 0; line < kPanelLines; line += 4) {
      hn::Vec<F32> low[4];
      hn::Vec<F32> high[4];
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t count = line + i < valid ? task.depth - k : 0;
        const auto* from = count > 0 ? lines + (line + i) * operand.line_stride : lines;
        load_some<Decode>(from, count, low[i], high[i]);
      }
      store_transposed<kPanelLines>(low, task.panel + k * kPanelLines + line);
      store_transposed<kPanelLines>(high, task.panel + (k + kLanes) * kPanelLines + line);
    }
  }
}

// The lines are contiguous: a panel's row of lines is copied for each k.
template <class Decode, std::int64_t kPanelLines>
void pack_mn_major(const PackTask& task, std::int64_t valid) {
  const OperandLines& operand = *task.operand;
  const auto* data = static_cast<const typename Decode::Storage*>(operand.values);
  for (std::int64_t k = 0; k < task.depth; ++k) {
    const auto* from = data + operand.offset(task.line, task.k + k);
    float row[kPanelLines + kPair];
    for (std::int64_t line = 0; line < kPanelLines; line += kPair) {
      const std::int64_t count = valid - line;
      hn::Vec<F32> low;
      hn::Vec<F32> high;
      load_some<Decode>(count > 0 ? from + line : from, count, low, high);
      hn::StoreU(low, kF32, row + line);
      hn::StoreU(high, kF32, row + line + kLanes);
    }
    std::memcpy(task.panel + k * kPanelLines, row, sizeof(float) * kPanelLines);
  }
}

template <class Decode, std::int64_t kPanelLines>
void pack_values(const PackTask& task, std::int64_t valid) {
  if (task.operand->k_stride == 1) {
    pack_k_major<Decode, kPanelLines>(task, valid);
  } else {
    pack_mn_major<Decode, kPanelLines>(task, valid);
  }
}

// One scale per line and slice, whatever the block; 1 if unscaled.
template <std::int64_t kPanelLines>
void pack_scales(const PackTask& task, std::int64_t valid, float* to) {
  const std::int64_t slice = task.operand->slice;
  for (std::int64_t k = 0; k < task.depth; k += slice) {
    for (std::int64_t line = 0; line < kPanelLines; ++line, ++to) {
      *to = line < valid ? task.operand->scale(task.line + line, (task.k + k) / slice) : 1;
    }
  }
}

template <std::int64_t kPanelLines>
void pack(const PackTask& task) {
  const std::int64_t valid = std::min(kPanelLines, task.operand->lines - task.line);
  switch (task.operand->dtype) {
    case Dtype::f32: pack_values<DecodeF32, kPanelLines>(task, valid); break;
    case Dtype::f16: pack_values<DecodeF16, kPanelLines>(task, valid); break;
    case Dtype::bf16: pack_values<DecodeBf16, kPanelLines>(task, valid); break;
    case Dtype::e4m3: pack_values<DecodeE4m3, kPanelLines>(task, valid); break;
    case Dtype::e5m2: pack_values<DecodeE5m2, kPanelLines>(task, valid); break;
    case Dtype::ue8m0:
    case Dtype::i32:
    case Dtype::i64: break;
  }
  pack_scales<kPanelLines>(task, valid, task.panel + task.capacity * kPanelLines);
}

// A row of a micro-tile is kVectors vectors of b; as many accumulators as kRows * kVectors stay in registers.
template <std::int64_t kRows, std::int64_t kVectors, bool kOneByOne>
void multiply(const MultiplyTask& task) {
  using V = hn::Vec<F32>;
  constexpr std::int64_t kCols = kVectors * kLanes;
  const float* HWY_RESTRICT a = task.a;
  const float* HWY_RESTRICT b = task.b;
  for (std::int64_t k = 0; k < task.depth; k += task.slice) {
    V slice[kRows][kVectors];
    for (auto& row : slice) {
      for (V& sum : row) sum = hn::Zero(kF32);
    }
    for (std::int64_t i = std::min(task.slice, task.depth - k); i > 0; --i) {
      V vectors[kVectors];
      HWY_UNROLL(3)
      for (std::int64_t j = 0; j < kVectors; ++j) vectors[j] = hn::LoadU(kF32, b + j * kLanes);
      HWY_UNROLL(24)  // GCC 12 takes no template parameter here: the most there are
      for (std::int64_t row = 0; row < kRows; ++row) {
        const V broadcast = hn::Set(kF32, a[row]);
        HWY_UNROLL(3)
        for (std::int64_t j = 0; j < kVectors; ++j) {
          slice[row][j] = hn::MulAdd(broadcast, vectors[j], slice[row][j]);
        }
      }
      a += kRows;
      b += kCols;
    }
    const float* a_scales = task.a_scales + k / task.slice * kRows;
    const float* b_scales = task.b_scales + k / task.slice * kCols;
    const bool first = task.first && k == 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const V sa = hn::Set(kF32, a_scales[row]);
      for (std::int64_t i = 0; i < kVectors; ++i) {
        float* to = task.acc + row * kCols + i * kLanes;
        const V sb = hn::LoadU(kF32, b_scales + i * kLanes);
        const V acc = first ? hn::Zero(kF32) : hn::LoadU(kF32, to);
        const V sum = slice[row][i];
        hn::StoreU(kOneByOne ? hn::MulAdd(hn::Mul(sum, sa), sb, acc)
                             : hn::MulAdd(sum, hn::Mul(sa, sb), acc),
                   kF32, to);
      }
    }
  }
}

// The bias of a micro-tile's columns and their scales; zero beyond N.
void load_bias(const StoreTask& task, std::int64_t cols, float* to) {
  const TensorView& bias = task.product->bias;
  for (std::int64_t i = 0; i < cols; ++i) to[i] = load_f32(bias.data, task.n + i, bias.dtype);
}
void load_end_scales(const StoreTask& task, std::int64_t cols, float* to) {
  for (std::int64_t i = 0; i < cols; ++i) to[i] = task.product->b.end_scale(task.n + i);
}

template <std::int64_t kRows, std::int64_t kCols, class Encode>
void store_rows(const StoreTask& task) {
  using Storage = typename Encode::Storage;
  const CpuProduct& product = *task.product;
  const std::int64_t rows = std::min(kRows, product.m - task.m);
  const std::int64_t cols = std::min(kCols, product.n - task.n);
  const std::size_t row_bytes = static_cast<std::size_t>(cols) * sizeof(Storage);
  const bool has_bias = product.bias.data != nullptr;
  const bool has_end_scales = product.has_end_scales();
  float bias[kCols] = {};
  float b_scales[kCols] = {};
  if (has_bias) load_bias(task, cols, bias);
  if (has_end_scales) load_end_scales(task, cols, b_scales);
  for (std::int64_t row = 0; row < rows; ++row) {
    Storage* to =
        static_cast<Storage*>(product.d.data) + (task.m + row) * product.d.strides[0] + task.n;
    const float* acc = task.acc + row * kCols;
    float sum[kCols + kLanes] = {};
    Storage buffer[kCols + kLanes] = {};
    if (product.accumulate) std::memcpy(buffer, to, row_bytes);
    for (std::int64_t i = 0; i < kCols; i += kPair) {
      hn::Vec<F32> low;
      hn::Vec<F32> high;
      Encode::load(buffer + i, low, high);
      hn::StoreU(low, kF32, sum + i);
      hn::StoreU(high, kF32, sum + i + kLanes);
    }
    for (std::int64_t i = 0; i < kCols; i += kLanes) {
      auto value = hn::LoadU(kF32, acc + i);
      if (has_end_scales) {
        const auto a_scale = hn::Set(kF32, product.a.end_scale(task.m + row));
        value = hn::Mul(hn::Mul(value, a_scale), hn::LoadU(kF32, b_scales + i));
      }
      if (has_bias) value = hn::Add(value, hn::LoadU(kF32, bias + i));
      if (product.accumulate) value = hn::Add(value, hn::LoadU(kF32, sum + i));
      Encode::store(value, buffer + i);
    }
    std::memcpy(to, buffer, row_bytes);
  }
}

template <std::int64_t kRows, std::int64_t kCols>
void store(const StoreTask& task) {
  switch (task.product->d.dtype) {
    case Dtype::f32: store_rows<kRows, kCols, EncodeF32>(task); break;
    case Dtype::f16: store_rows<kRows, kCols, EncodeF16>(task); break;
    case Dtype::bf16: store_rows<kRows, kCols, EncodeBf16>(task); break;
    default: break;
  }
}

template <std::int64_t kRows, std::int64_t kVectors>
constexpr GemmKernels kernels_of_tile(double utilisation) {
  constexpr std::int64_t kCols = kVectors * kLanes;
  return {HWY_TARGET == HWY_AVX2 ? "avx2" : "avx512",
          kRows,
          kCols,
          utilisation,
          pack<kRows>,
          pack<kCols>,
          multiply<kRows, kVectors, false>,
          multiply<kRows, kVectors, true>,
          store<kRows, kCols>};
}

}  // namespace

// Of 16 registers 12 are accumulators at most, of 32 there are 24: the others hold a row of b and a value of a.
// Utilisations: rates of 1024 cubed, 256x4096x1024 and 4096x512x1024 over those of the first tile, on two cores of an
// EPYC with AVX-512, in turns: 0.92 to 0.94 and 0.81 to 0.83 with AVX2; 0.84 to 0.94 and 0.73 to 0.86 with AVX-512.
std::span<const GemmKernels> gemm_kernels() {
#if HWY_TARGET == HWY_AVX2
  static const std::array kernels{kernels_of_tile<4, 3>(1), kernels_of_tile<4, 2>(0.93),
                                  kernels_of_tile<8, 1>(0.82)};
#else
  static const std::array kernels{kernels_of_tile<8, 3>(1), kernels_of_tile<12, 2>(0.90),
                                  kernels_of_tile<24, 1>(0.80)};
#endif
  return kernels;
}

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

std::span<const GemmKernels> gemm_kernels_avx2() { return N_AVX2::gemm_kernels(); }
std::span<const GemmKernels> gemm_kernels_avx512() { return N_AVX3::gemm_kernels(); }

}  // namespace octet
#endif
