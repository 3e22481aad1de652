// The pieces of the cpu_simd product: how a problem is cut, how operands are packed, and the
// kernels each instruction set provides.
//
// A chunk of d, at most kMaxChunk rows by kMaxChunk columns, is computed at a time. Its operands
// are decoded once per chunk to f32 panels of `rows` (a) or `cols` (b) lines:
//   panel   [k][lines] f32, then [slice][lines] f32 scales
//   acc     [a panel][b panel][rows][cols] f32
#pragma once

#include <octet/ops/gemm.hpp>

#include <algorithm>
#include <cstdint>

namespace octet {

// One panel of an operand: lines [line, line + lines) and contraction [k, k + depth).
struct PackTask {
  const QuantizedView* operand;
  std::int64_t line;
  std::int64_t k;
  std::int64_t depth;
  std::int64_t capacity;  // the depth a panel has room for; its scales follow
  float* panel;
};

// One micro-tile of acc, over `depth` of the contraction.
struct MultiplyTask {
  const float* a;         // [depth][rows]
  const float* b;         // [depth][cols]
  const float* a_scales;  // [slices][rows]
  const float* b_scales;  // [slices][cols]
  float* acc;             // [rows][cols]
  std::int64_t depth;
  bool first;  // acc starts at zero
};

// A finished micro-tile, rounded to d.
struct StoreTask {
  const float* acc;  // [rows][cols]
  const TensorView* d;
  const TensorView* bias;  // [N]; without data: none
  std::int64_t m;
  std::int64_t n;
  bool accumulate;
};

struct GemmKernels {
  const char* name;  // the instruction set
  std::int64_t rows;
  std::int64_t cols;
  void (*pack_a)(const PackTask& task);
  void (*pack_b)(const PackTask& task);
  void (*multiply)(const MultiplyTask& task);             // fma(slice, sa * sb, acc)
  void (*multiply_one_by_one)(const MultiplyTask& task);  // fma(slice * sa, sb, acc)
  void (*store)(const StoreTask& task);
};

const GemmKernels& gemm_kernels_avx2();
const GemmKernels& gemm_kernels_avx512();

// How a problem is cut. Memory beyond the operands is bounded: see bytes().
struct GemmChunks {
  std::int64_t rows = 0;      // of a chunk, whole panels
  std::int64_t cols = 0;      // of a chunk, whole panels
  std::int64_t depth = 0;     // contraction packed at a time, whole slices
  std::int64_t a_panel = 0;   // floats of one panel of a, scales included
  std::int64_t b_panel = 0;   // floats of one panel of b, scales included
  std::int64_t a_panels = 0;  // of a chunk
  std::int64_t b_panels = 0;  // of a chunk

  std::size_t bytes() const {
    return static_cast<std::size_t>(a_panels * a_panel + b_panels * b_panel + rows * cols) *
           sizeof(float);
  }
};

GemmChunks gemm_chunks(const GemmProblem& problem, const GemmKernels& kernels);

// Runs the product with the kernels of one instruction set; `workspace` has gemm_chunks().bytes().
void run_gemm(const GemmProblem& problem, const GemmArgs& args, const GemmKernels& kernels,
              void* workspace, int threads);

}  // namespace octet
