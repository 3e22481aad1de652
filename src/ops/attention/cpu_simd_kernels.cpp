// The kernels of attention over tiles of 64 rows and 64 lanes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/numeric.hpp"
#include "ops/attention/cpu_simd.hpp"

#include <limits>

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"
#include "cpu/exp_of_minus-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {
namespace attention_tiles {

using octet::attention::kLanes;
using octet::attention::LaneRanges;
using octet::attention::SoftmaxOfForward;
using octet::attention::SoftmaxState;

using I32 = hn::RebindToSigned<F32>;
inline constexpr int kVector = static_cast<int>(HWY_LANES(float));
// 4 rows x 4 vectors of accumulators fill half of AVX-512's registers, 4 x 2 those of AVX2.
inline constexpr int kRows = 4;
inline constexpr int kVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
inline constexpr int kChunk = kVectors * kVector;  // lanes at a time

template <class Lanes, Dtype kDtype>
void widen(const void* from, std::int64_t count, float* to) {
  const auto* elements = static_cast<const typename Lanes::Storage*>(from);
  std::int64_t c = 0;
  for (; c + 2 * kVector <= count; c += 2 * kVector) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Lanes::load(elements + c, low, high);
    hn::StoreU(low, F32(), to + c);
    hn::StoreU(high, F32(), to + c + kVector);
  }
  for (; c < count; ++c) to[c] = load_f32(from, c, kDtype);
}

template <class Lanes, Dtype kDtype>
void narrow(const float* from, std::int64_t count, void* to) {
  auto* elements = static_cast<typename Lanes::Storage*>(to);
  std::int64_t c = 0;
  for (; c + kVector <= count; c += kVector) {
    Lanes::store(hn::LoadU(F32(), from + c), elements + c);
  }
  for (; c < count; ++c) store_f32(to, c, kDtype, from[c]);
}

// R rows against one chunk of lanes.
template <int R>
HWY_INLINE void multiply_rows(const float* rows, std::int64_t dim, const float* lanes,
                              float* tile) {
  hn::Vec<F32> sum[R][kVectors];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(F32());
  }
  for (std::int64_t c = 0; c < dim; ++c) {
    hn::Vec<F32> lane[kVectors];
    for (int v = 0; v < kVectors; ++v) lane[v] = hn::Load(F32(), lanes + c * kLanes + v * kVector);
    for (int r = 0; r < R; ++r) {
      const auto element = hn::Set(F32(), rows[r * dim + c]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(element, lane[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], F32(), tile + r * kLanes + v * kVector);
  }
}

void multiply(const float* rows, std::int64_t count, std::int64_t dim, const float* lanes,
              float* tile) {
  for (std::int64_t chunk = 0; chunk < kLanes; chunk += kChunk) {
    std::int64_t r = 0;
    for (; r + kRows <= count; r += kRows) {
      multiply_rows<kRows>(rows + r * dim, dim, lanes + chunk, tile + r * kLanes + chunk);
    }
    for (; r < count; ++r) {
      multiply_rows<1>(rows + r * dim, dim, lanes + chunk, tile + r * kLanes + chunk);
    }
  }
}

// C columns of a head for one chunk of lanes.
template <int C>
HWY_INLINE void accumulate_columns(const float* rows, std::int64_t count, std::int64_t dim,
                                   const float* tile, float* total) {
  hn::Vec<F32> sum[C][kVectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      sum[c][v] = hn::Load(F32(), total + c * kLanes + v * kVector);
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    hn::Vec<F32> lane[kVectors];
    for (int v = 0; v < kVectors; ++v) lane[v] = hn::Load(F32(), tile + r * kLanes + v * kVector);
    for (int c = 0; c < C; ++c) {
      const auto element = hn::Set(F32(), rows[r * dim + c]);
      for (int v = 0; v < kVectors; ++v) sum[c][v] = hn::MulAdd(element, lane[v], sum[c][v]);
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sum[c][v], F32(), total + c * kLanes + v * kVector);
    }
  }
}

void accumulate(const float* rows, std::int64_t count, std::int64_t dim, const float* tile,
                float* sum) {
  for (std::int64_t chunk = 0; chunk < kLanes; chunk += kChunk) {
    std::int64_t c = 0;
    for (; c + kRows <= dim; c += kRows) {
      accumulate_columns<kRows>(rows + c, count, dim, tile + chunk, sum + c * kLanes + chunk);
    }
    for (; c < dim; ++c) {
      accumulate_columns<1>(rows + c, count, dim, tile + chunk, sum + c * kLanes + chunk);
    }
  }
}

void scale_lanes(const float* factor, std::int64_t dim, float* sum) {
  for (std::int64_t lane = 0; lane < kLanes; lane += kVector) {
    const auto factors = hn::Load(F32(), factor + lane);
    for (std::int64_t c = 0; c < dim; ++c) {
      float* at = sum + c * kLanes + lane;
      hn::Store(hn::Mul(hn::Load(F32(), at), factors), F32(), at);
    }
  }
}

// scale * score of one row and vector of lanes; -infinity where the lane does not see the row.
struct Scores {
  hn::Vec<F32> scale;
  hn::Vec<I32> begin, end;
  bool masked;

  HWY_INLINE Scores(float factor, const LaneRanges* ranges, std::int64_t lane)
      : scale(hn::Set(F32(), factor)), masked(ranges != nullptr) {
    begin = masked ? hn::Load(I32(), ranges->begin + lane) : hn::Zero(I32());
    end = masked ? hn::Load(I32(), ranges->end + lane) : hn::Zero(I32());
  }
  HWY_INLINE hn::Vec<F32> operator()(std::int64_t row, hn::Vec<F32> score) const {
    const auto scaled = hn::Mul(score, scale);
    if (!masked) return scaled;
    const auto index = hn::Set(I32(), static_cast<std::int32_t>(row));
    const auto visible = hn::AndNot(hn::Lt(index, begin), hn::Lt(index, end));
    return hn::IfThenElse(hn::RebindMask(F32(), visible), scaled,
                          hn::Set(F32(), -std::numeric_limits<float>::infinity()));
  }
};

void softmax(float scale, std::int64_t count, const LaneRanges* ranges, float* tile,
             SoftmaxState& state) {
  const auto nothing = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  for (std::int64_t lane = 0; lane < kLanes; lane += kVector) {
    const Scores scores(scale, ranges, lane);
    const auto before = hn::Load(F32(), state.largest + lane);
    auto largest = before;
    for (std::int64_t r = 0; r < count; ++r) {
      float* at = tile + r * kLanes + lane;
      const auto score = scores(r, hn::Load(F32(), at));
      hn::Store(score, F32(), at);
      largest = hn::Max(largest, score);
    }
    // -infinity minus -infinity is NaN: a lane that has seen nothing subtracts from 0.
    const auto base = hn::IfThenZeroElse(hn::Eq(largest, nothing), largest);
    const auto rescale = exp_of_minus(hn::Sub(base, before));
    auto sum = hn::Zero(F32());  // of the tile: shorter sums have smaller errors
    for (std::int64_t r = 0; r < count; ++r) {
      float* at = tile + r * kLanes + lane;
      const auto p = exp_of_minus(hn::Sub(base, hn::Load(F32(), at)));
      hn::Store(p, F32(), at);
      sum = hn::Add(sum, p);
    }
    sum = hn::MulAdd(hn::Load(F32(), state.sum + lane), rescale, sum);
    hn::Store(largest, F32(), state.largest + lane);
    hn::Store(sum, F32(), state.sum + lane);
    hn::Store(rescale, F32(), state.rescale + lane);
  }
}

template <bool kByRow>
void gradient(float scale, std::int64_t count, const LaneRanges* ranges,
              const SoftmaxOfForward& softmax, float* p, float* ds) {
  for (std::int64_t lane = 0; lane < kLanes; lane += kVector) {
    const Scores scores(scale, ranges, lane);
    auto lse = hn::Load(F32(), softmax.lse + lane);
    auto delta = hn::Load(F32(), softmax.delta + lane);
    for (std::int64_t r = 0; r < count; ++r) {
      if (kByRow) {
        lse = hn::Set(F32(), softmax.lse[r]);
        delta = hn::Set(F32(), softmax.delta[r]);
      }
      const std::int64_t at = r * kLanes + lane;
      const auto probability = exp_of_minus(hn::Sub(lse, scores(r, hn::Load(F32(), p + at))));
      hn::Store(probability, F32(), p + at);
      const auto dp = hn::Load(F32(), ds + at);
      hn::Store(hn::Mul(probability, hn::Sub(dp, delta)), F32(), ds + at);
    }
  }
}

}  // namespace attention_tiles

extern const octet::attention::Kernels kAttentionKernels;
const octet::attention::Kernels kAttentionKernels = {
    {attention_tiles::widen<EncodeF32, Dtype::f32>, attention_tiles::widen<EncodeF16, Dtype::f16>,
     attention_tiles::widen<EncodeBf16, Dtype::bf16>},
    {attention_tiles::narrow<EncodeF32, Dtype::f32>, attention_tiles::narrow<EncodeF16, Dtype::f16>,
     attention_tiles::narrow<EncodeBf16, Dtype::bf16>},
    attention_tiles::multiply,
    attention_tiles::accumulate,
    attention_tiles::scale_lanes,
    attention_tiles::softmax,
    attention_tiles::gradient<false>,
    attention_tiles::gradient<true>,
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet::attention {

const Kernels& kernels_of(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? N_AVX3::kAttentionKernels
                                                : N_AVX2::kAttentionKernels;
}

}  // namespace octet::attention
#endif
