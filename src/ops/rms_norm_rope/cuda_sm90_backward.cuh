// Backward of rms_norm_rope on Hopper: dout is rotated back, then the gradient of the norm is
// taken.
//
// The grid is as large as fits the device; q and k get blocks in proportion to their heads. A block
// takes every n-th group of heads of its tensor and accumulates dg in registers. A group has as
// many heads as fill the threads of the block: those of several tokens, or a part of one token's if
// each head is normed by itself.
//
// The first warp has the heads of the next groups copied into a ring in shared memory, so the bytes
// in flight do not depend on registers. Heads that are not aligned are read from global memory; the
// sums are the same.
//
// Each block writes one line of partial sums of dg, which device/rows/partial_sums adds in a fixed
// order.
//
// 8x2048x4096 bf16 by heads on an H200: 2.4 TB/s, 55 % of the issue slots, 531 instructions per warp
// and unit; loading position and rstd two groups ahead and cos and sin one group ahead made it 1.12x
// as fast, by rows 1.25x.
#pragma once

#include "device/rows/row_ring.cuh"
#include "ops/rope/cuda_sm90_heads.cuh"

namespace octet::sm90 {

inline constexpr int kBackThreads = 256;  // of a block
inline constexpr int kBackWarps = kBackThreads / 32;
// Blocks per multiprocessor that registers allow without spilling.
template <Dtype kDtype, int kUnits>
inline constexpr int kBackBlocks = kUnits > 1 && kDtype == Dtype::f32 ? 1 : 2;

// One of q and k.
struct HeadGradients {
  Heads dout;
  Heads x;
  Heads dx;
  Weights g;
  const float* rstd;
  float* partials;  // [blocks, columns of dg]
  int heads;
  int chunks;        // groups that a token is cut into; 1 with the norm over a row
  int chunk_heads;   // of a group, in a token; the last chunk may have fewer
  int slots;         // units of a token in a group, with the padding
  int group_tokens;  // 1 unless a token has few heads
  float one_over_count;
  unsigned blocks;
  int stages;   // of the ring; 0 without one
  bool packed;  // the heads of a token are side by side in dout, and in x
};

struct HeadGradientParams {
  HeadGradients tensors[2];
  Angles angles;  // of the inverse rotation
  HeadShape shape;
  unsigned tokens;
  bool one_plus_weight;
  bool aligned;
};

// Which unit of which head a thread has, in a group of tokens. With more units than threads it has
// the same unit of further heads, `head_step` apart.
struct BackThread {
  int token;  // in the group
  int head;
  int unit;
  int head_step;

  __device__ BackThread(const HeadShape& shape, const HeadGradients& tensor) {
    const int index = static_cast<int>(threadIdx.x);
    token = tensor.group_tokens == 1 ? 0 : index / tensor.slots;
    head = (index - token * tensor.slots) >> shape.units_log2;
    unit = index & ((1 << shape.units_log2) - 1);
    head_step = kBackThreads >> shape.units_log2;
  }
};

// The ring of a block: a stage has the heads of a group, first those of dout, then those of x.
struct GroupRing {
  std::uint32_t storage;
  std::uint32_t barriers;   // one per stage
  std::uint32_t row_bytes;  // of the heads of a token in a group
  int group_tokens;
  int stages;

  __device__ __forceinline__ std::uint32_t row(int stage, int operand, int token) const {
    return storage +
           static_cast<std::uint32_t>((stage * 2 + operand) * group_tokens + token) * row_bytes;
  }
  __device__ __forceinline__ std::uint32_t barrier(int stage) const {
    return barriers + 8u * static_cast<std::uint32_t>(stage);
  }
};

// Copies the heads of one group. The first warp calls it; a lane copies a token's heads, or one of
// them if they are not side by side.
template <Dtype kDtype>
__device__ __forceinline__ void load_group(const HeadGradientParams& params,
                                           const HeadGradients& tensor, const GroupRing& ring,
                                           int stage, unsigned group) {
  const auto chunks = static_cast<unsigned>(tensor.chunks);
  const unsigned first = group / chunks * static_cast<unsigned>(ring.group_tokens);
  const int tokens = min(ring.group_tokens, static_cast<int>(params.tokens - first));
  const int first_head = static_cast<int>(group % chunks) * tensor.chunk_heads;
  const int heads = min(tensor.chunk_heads, tensor.heads - first_head);
  const auto head_bytes = static_cast<std::uint32_t>(params.shape.head_dim * kElementBytes<kDtype>);
  if (threadIdx.x == 0) {
    ptx::barrier_expect_bytes(ring.barrier(stage),
                              static_cast<std::uint32_t>(2 * tokens * heads) * head_bytes);
  }
  __syncwarp();
  const int pieces = tensor.packed ? 1 : heads;
  const std::uint32_t piece_bytes =
      tensor.packed ? static_cast<std::uint32_t>(heads) * head_bytes : head_bytes;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < 2 * tokens * pieces; i += 32) {
    const int piece = i / 2 % pieces;
    const int token_of_group = i / 2 / pieces;
    const Token token(first + static_cast<unsigned>(token_of_group), params.shape.seq);
    const Heads& from = i % 2 == 0 ? tensor.dout : tensor.x;
    const char* address =
        static_cast<const char*>(from.data) +
        (token.offset(from) + (first_head + piece) * from.strides[2]) * kElementBytes<kDtype>;
    ptx::load_bytes(
        ring.row(stage, i % 2, token_of_group) + static_cast<std::uint32_t>(piece) * piece_bytes,
        address, piece_bytes, ring.barrier(stage));
  }
}

// Keeps the ring full: fill() before the first group, and after every barrier of the block, which
// all threads pass when they are done with the group before.
template <Dtype kDtype>
struct RingLoader {
  const HeadGradientParams& params;
  const HeadGradients& tensor;
  const GroupRing& ring;
  unsigned groups;
  unsigned next;
  int stage = 0;

  __device__ __forceinline__ void load() {
    if (next >= groups) return;
    load_group<kDtype>(params, tensor, ring, stage, next);
    stage = stage + 1 == ring.stages ? 0 : stage + 1;
    next += tensor.blocks;
  }
  __device__ __forceinline__ void fill() {
    if (threadIdx.x >= 32) return;
#pragma unroll 1
    for (int i = 0; i < ring.stages; ++i) load();
  }
  __device__ __forceinline__ void refill(bool first_group) {
    if (threadIdx.x < 32 && !first_group && ring.stages > 0) load();
  }
};

// A unit of dout, rotated back (dn), and the same unit of x.
template <Dtype kDtype, RopeStyle kStyle>
struct GradientUnit {
  PairsOf4 dn[2];
  Unit<kDtype, kStyle> x;
};

__device__ __forceinline__ float sum_of_products(const PairsOf4& dn, const PairsOf4& w,
                                                 const PairsOf4& x) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = __fmaf_rn(dn.a[i] * w.a[i], x.a[i], sum);
    sum = __fmaf_rn(dn.b[i] * w.b[i], x.b[i], sum);
  }
  return sum;
}

// dx of four pairs; adds their part to dg.
__device__ __forceinline__ PairsOf4 norm_gradient(const PairsOf4& dn, const PairsOf4& w,
                                                  const PairsOf4& x, float rstd, float k,
                                                  PairsOf4& dg) {
  PairsOf4 dx;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    dx.a[i] = __fmul_rn(__fmaf_rn(-x.a[i], k, dn.a[i] * w.a[i]), rstd);
    dx.b[i] = __fmul_rn(__fmaf_rn(-x.b[i], k, dn.b[i] * w.b[i]), rstd);
    dg.a[i] = __fmaf_rn(dn.a[i], x.a[i] * rstd, dg.a[i]);
    dg.b[i] = __fmaf_rn(dn.b[i], x.b[i] * rstd, dg.b[i]);
  }
  return dx;
}

// Stores the columns of half a unit, whose head starts at column `at`.
template <RopeStyle kStyle>
__device__ __forceinline__ void store_unit_columns(float* line, int at, int half,
                                                   const UnitPlace<kStyle>& place,
                                                   const PairsOf4& dg) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kStyle == RopeStyle::rotate_half) {
      line[at + place.first + 4 * half + i] = dg.a[i];
      line[at + place.second + 4 * half + i] = dg.b[i];
    } else {
      const int col = at + (half == 0 ? place.first : place.second) + 2 * i;
      line[col] = dg.a[i];
      line[col + 1] = dg.b[i];
    }
  }
}

// Adds dg over the threads that have the same columns, `step` apart, in their order; the first gets
// the sum.
__device__ __forceinline__ PairsOf4 sum_over_threads(const PairsOf4& dg, int step,
                                                     PairsOf4* shared) {
  const int index = static_cast<int>(threadIdx.x);
  __syncthreads();
  shared[index] = dg;
  __syncthreads();
  PairsOf4 sum = dg;
  if (index >= step) return sum;
  for (int other = index + step; other < kBackThreads; other += step) {
    const PairsOf4& more = shared[other];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum.a[i] += more.a[i];
      sum.b[i] += more.b[i];
    }
  }
  return sum;
}

// The place of a thread in a group: its token, and the first of its heads.
struct GroupPlace {
  Token token;
  unsigned token_index;
  int head;
  bool has_token;

  __device__ GroupPlace(const HeadGradientParams& params, const HeadGradients& tensor,
                        const BackThread& thread, unsigned group)
      : token(0, 1) {
    const auto chunks = static_cast<unsigned>(tensor.chunks);
    const unsigned tokens = chunks == 1 ? group : group / chunks;
    token_index =
        tokens * static_cast<unsigned>(tensor.group_tokens) + static_cast<unsigned>(thread.token);
    token = Token(token_index, params.shape.seq);
    head = static_cast<int>(group - tokens * chunks) * tensor.chunk_heads + thread.head;
    has_token = thread.token < tensor.group_tokens && token_index < params.tokens;
  }
};

// What a thread reads of a group from global memory besides the heads. It is loaded ahead, since
// cos and sin depend on the position.
template <HeadNorm kNorm>
struct TokenFacts {
  std::int64_t position = 0;
  float rstd = 0;

  __device__ void load(const HeadGradientParams& params, const HeadGradients& tensor,
                       const GroupPlace& place) {
    if (!place.has_token || place.head >= tensor.heads) return;
    position = position_of(params.angles, place.token);
    rstd = tensor.rstd[kNorm == HeadNorm::row
                           ? std::int64_t{place.token_index}
                           : std::int64_t{place.token_index} * tensor.heads + place.head];
  }
};

// cos and sin of a unit.
struct UnitAngles {
  CosSinOf4 halves[2];

  // kSimple: every unit is rotated, and angles.vectors is true.
  template <bool kSimple>
  __device__ __forceinline__ void load(const Angles& angles, std::int64_t position, bool rotated,
                                       int unit) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      halves[half] = load_unit_cos_sin<kSimple>(angles, position, kSimple || rotated, unit, half);
    }
  }
};

// A group as one thread sees it. kSimple: the heads are in the ring, every unit is rotated, units
// are not padded, and the weights are aligned, have the tensor's dtype and are used as they are.
template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm, bool kSimple>
struct Group {
  const HeadGradientParams& params;
  const HeadGradients& tensor;
  const GroupRing& ring;
  const BackThread& thread;
  const UnitPlace<kStyle>& place;
  const GroupPlace& at;
  int stage;

  __device__ __forceinline__ int head(int i) const { return at.head + i * thread.head_step; }
  __device__ __forceinline__ bool has(int i) const {
    return at.has_token && (kSimple || thread.unit < params.shape.units) && head(i) < tensor.heads;
  }

  __device__ __forceinline__ Unit<kDtype, kStyle> load(int operand, const Heads& heads,
                                                       int i) const {
    Unit<kDtype, kStyle> unit;
    if (kSimple || ring.stages > 0) {
      const int column = (thread.head + i * thread.head_step) * params.shape.head_dim;
      const std::uint32_t row = ring.row(stage, operand, thread.token);
      const auto eight = [&](int col) {
        return load_shared_eight<kDtype>(row + static_cast<std::uint32_t>(column + col) *
                                                   kElementBytes<kDtype>);
      };
      unit.first = eight(place.first);
      unit.second = eight(place.second);
    } else {
      unit.template load<true>(address(heads, i), place, params.aligned);
    }
    return unit;
  }
  __device__ __forceinline__ char* address(const Heads& heads, int i) const {
    return static_cast<char*>(heads.data) +
           (at.token.offset(heads) + head(i) * heads.strides[2]) * kElementBytes<kDtype>;
  }

  __device__ __forceinline__ GradientUnit<kDtype, kStyle> unit(int i,
                                                               const UnitAngles& angles) const {
    GradientUnit<kDtype, kStyle> result;
    const Unit<kDtype, kStyle> dout = load(0, tensor.dout, i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      result.dn[half] = dout.pairs(half);
      if (kSimple || place.rotated) result.dn[half].rotate(angles.halves[half]);
    }
    result.x = load(1, tensor.x, i);
    return result;
  }

  __device__ __forceinline__ PairsOf4 gains(int i, int half) const {
    return load_unit_gains<kDtype, kSimple>(
        tensor.g, !kSimple && params.one_plus_weight,
        kNorm == HeadNorm::head ? 0 : head(i) * params.shape.head_dim, place, half);
  }

  // The sum of dn * w * x over a unit.
  __device__ __forceinline__ float product(int i, const GradientUnit<kDtype, kStyle>& unit) const {
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum += sum_of_products(unit.dn[half], gains(i, half), unit.x.pairs(half));
    }
    return sum;
  }

  // Writes dx of a unit and adds its part to dg.
  __device__ __forceinline__ void write(int i, const GradientUnit<kDtype, kStyle>& unit, float rstd,
                                        float k, PairsOf4 (&dg)[2]) const {
    Unit<kDtype, kStyle> dx;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      dx.set_pairs(half, norm_gradient(unit.dn[half], gains(i, half), unit.x.pairs(half), rstd, k,
                                       dg[half]));
    }
    dx.store(address(tensor.dx, i), place, kSimple || params.aligned);
  }
};

// The norm over each head: its lanes are neighbours, so no other warp is needed. `read` is called
// once cos and sin are used.
template <Dtype kDtype, RopeStyle kStyle, class Group, class Read>
__device__ __forceinline__ void norm_heads_back(const Group& group, float rstd,
                                                const UnitAngles& angles, const Read& read,
                                                PairsOf4 (&dg)[1][2]) {
  const bool has = group.has(0);
  GradientUnit<kDtype, kStyle> unit;
  float product = 0;
  if (has) {
    unit = group.unit(0, angles);
    product = group.product(0, unit);
  }
  read();
  const float sum = sum_of_head(product, 1 << group.params.shape.units_log2);
  const float k = sum * group.tensor.one_over_count * rstd * rstd;
  if (has) group.write(0, unit, rstd, k, dg[0]);
}

// The norm over a token: sums of its warps through shared memory. The units are read again after
// the barrier where a thread has several, since they would take too many registers.
template <Dtype kDtype, RopeStyle kStyle, int kUnits, class Group, class Read, class Passed>
__device__ __forceinline__ void norm_tokens_back(const Group& group, float rstd,
                                                 const UnitAngles& angles, const Read& read,
                                                 const Passed& passed_barrier, float* sums,
                                                 PairsOf4 (&dg)[kUnits][2]) {
  const HeadGradients& tensor = group.tensor;
  GradientUnit<kDtype, kStyle> unit;
  float product = 0;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (!group.has(i)) continue;
    unit = group.unit(i, angles);
    product += group.product(i, unit);
  }
  if constexpr (kUnits == 1) read();
  product = sum_of_lanes(product);
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (threadIdx.x % 32 == 0) sums[warp] = product;
  __syncthreads();
  passed_barrier();
  const int first = tensor.group_tokens == 1 ? 0 : group.thread.token * tensor.slots / 32;
  const int count = tensor.group_tokens == 1 ? kBackWarps : tensor.slots / 32;
  float sum = 0;
  for (int w = 0; w < count; ++w) sum += sums[first + w];
  const float k = sum * tensor.one_over_count * rstd * rstd;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (!group.has(i)) continue;
    if (kUnits > 1) unit = group.unit(i, angles);
    group.write(i, unit, rstd, k, dg[i]);
  }
  if constexpr (kUnits > 1) read();
}

// The groups of a block, one after the other; each thread adds its part to dg.
template <HeadNorm kNorm, bool kSimple, Dtype kDtype, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void rotate_groups_back(const HeadGradientParams& params,
                                                   const HeadGradients& tensor,
                                                   const GroupRing& ring, const BackThread& thread,
                                                   const UnitPlace<kStyle>& place, unsigned block,
                                                   unsigned groups, float (*sums)[kBackWarps],
                                                   PairsOf4 (&dg)[kUnits][2]) {
  RingLoader<kDtype> loader{params, tensor, ring, groups, block};
  loader.fill();
  const auto place_of = [&](unsigned group) { return GroupPlace(params, tensor, thread, group); };
  TokenFacts<kNorm> now;
  TokenFacts<kNorm> next;
  UnitAngles angles;
  if (block < groups) now.load(params, tensor, place_of(block));
  if (block + tensor.blocks < groups) next.load(params, tensor, place_of(block + tensor.blocks));
  angles.load<kSimple>(params.angles, now.position, place.rotated, thread.unit);
  RingCursor cursor;
  int parity = 0;
  for (unsigned index = block; index < groups; index += tensor.blocks) {
    const GroupPlace at = place_of(index);
    const Group<kDtype, kStyle, kNorm, kSimple> group{params, tensor, ring,        thread,
                                                      place,  at,     cursor.stage};
    TokenFacts<kNorm> after;
    if (index + 2 * tensor.blocks < groups) {
      after.load(params, tensor, place_of(index + 2 * tensor.blocks));
    }
    const auto refill = [&] { loader.refill(index == block); };
    const auto load_next_angles = [&] {
      angles.load<kSimple>(params.angles, next.position, place.rotated, thread.unit);
    };
    if constexpr (kNorm == HeadNorm::head) {
      if (kSimple || ring.stages > 0) __syncthreads();
      refill();
    }
    if (kSimple || ring.stages > 0) {
      ptx::barrier_wait(ring.barrier(cursor.stage), cursor.parity);
    }
    if constexpr (kNorm == HeadNorm::head) {
      norm_heads_back<kDtype, kStyle>(group, now.rstd, angles, load_next_angles, dg);
    } else {
      norm_tokens_back<kDtype, kStyle>(group, now.rstd, angles, load_next_angles, refill,
                                       sums[parity], dg);
      parity ^= 1;
    }
    now = next;
    next = after;
    cursor.advance(ring.stages);
  }
}

// Stores the block's line of partial sums of dg.
template <HeadNorm kNorm, RopeStyle kStyle, int kUnits>
__device__ __forceinline__ void store_partial_sums(const HeadGradientParams& params,
                                                   const HeadGradients& tensor, unsigned block,
                                                   const BackThread& thread,
                                                   const UnitPlace<kStyle>& place,
                                                   const PairsOf4 (&dg)[kUnits][2],
                                                   PairsOf4* shared) {
  const HeadShape& shape = params.shape;
  const bool by_head = kNorm == HeadNorm::head;
  const int columns = (by_head ? 1 : tensor.heads) * shape.head_dim;
  float* line = tensor.partials + std::int64_t{block} * columns;
  // Threads that have the same columns: those of a unit, or of a head in several tokens.
  const int step = by_head                    ? 1 << shape.units_log2
                   : tensor.group_tokens == 1 ? kBackThreads
                                              : tensor.slots;
  const bool is_first = static_cast<int>(threadIdx.x) < min(step, kBackThreads);
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int head = by_head ? 0 : thread.head + i * thread.head_step;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PairsOf4 sum =
          step < kBackThreads ? sum_over_threads(dg[i][half], step, shared) : dg[i][half];
      if (is_first && thread.unit < shape.units && head < tensor.heads) {
        store_unit_columns(line, head * shape.head_dim, half, place, sum);
      }
    }
  }
}

// kUnits: of a thread in a token, with the norm over a row; else 1.
template <Dtype kDtype, RopeStyle kStyle, HeadNorm kNorm, int kUnits>
__global__
__launch_bounds__(kBackThreads, (kBackBlocks<kDtype, kUnits>)) void rotate_heads_back_kernel(
    const __grid_constant__ HeadGradientParams params) {
  __shared__ float sums[2][kBackWarps];
  __shared__ alignas(8) std::uint64_t barriers[kRingMaxStages];
  // The ring; at the end one PairsOf4 per thread.
  extern __shared__ __align__(128) unsigned char storage[];
  const auto [tensor, block] = tensor_of_block(params.tensors);
  const GroupRing ring{ptx::shared_address(storage), ptx::shared_address(barriers),
                       static_cast<std::uint32_t>(tensor.chunk_heads * params.shape.head_dim *
                                                  kElementBytes<kDtype>),
                       tensor.group_tokens, tensor.stages};
  const auto group_tokens = static_cast<unsigned>(tensor.group_tokens);
  const unsigned groups =
      (params.tokens + group_tokens - 1) / group_tokens * static_cast<unsigned>(tensor.chunks);
  const BackThread thread(params.shape, tensor);
  const UnitPlace<kStyle> place(params.shape, thread.unit < params.shape.units ? thread.unit : 0,
                                false);
  PairsOf4 dg[kUnits][2] = {};
  if (threadIdx.x == 0) {
    for (int s = 0; s < ring.stages; ++s) ptx::barrier_init(ring.barrier(s), 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::wait_for_earlier_kernels();

  const bool simple = ring.stages > 0 && are_plain<kDtype>(tensor.g) && !params.one_plus_weight &&
                      params.angles.vectors && params.shape.rotary_dim == params.shape.head_dim &&
                      params.shape.units == 1 << params.shape.units_log2;
  if (simple) {
    rotate_groups_back<kNorm, true, kDtype>(params, tensor, ring, thread, place, block, groups,
                                            sums, dg);
  } else {
    rotate_groups_back<kNorm, false, kDtype>(params, tensor, ring, thread, place, block, groups,
                                             sums, dg);
  }
  ptx::let_next_kernel_start();
  store_partial_sums<kNorm>(params, tensor, block, thread, place, dg,
                            reinterpret_cast<PairsOf4*>(storage));
}

}  // namespace octet::sm90
