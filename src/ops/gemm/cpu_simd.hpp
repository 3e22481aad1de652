// The pieces of the cpu_simd product: how products are cut, how operands are packed, and the
// kernels each instruction set provides.
//
// A chunk of d, at most so many rows by as many columns, is computed at a time, or several chunks of
// small products at once. The operands of a chunk are decoded once to f32 panels of
// `rows` (a) or `cols` (b) lines:
//   panel   [k][lines] f32, then [slice][lines] f32 scales
//   acc     [a panel][b panel][rows][cols] f32
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/gemm/cpu_product.hpp"

#include <octet/ops/gemm.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace octet {

// One panel of an operand: lines [line, line + lines) and contraction [k, k + depth).
struct PackTask {
  const OperandLines* operand;
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
  std::int64_t slice;  // of the contraction
  bool first;          // acc starts at zero
};

// A finished micro-tile, rounded to d.
struct StoreTask {
  const float* acc;           // [rows][cols]
  const CpuProduct* product;  // its d, bias and scales of whole lines
  std::int64_t m;
  std::int64_t n;
};

struct GemmKernels {
  const char* name;  // the instruction set
  std::int64_t rows;
  std::int64_t cols;
  double utilisation;  // of the arithmetic, over that of the instruction set's first micro-tile
  void (*pack_a)(const PackTask& task);
  void (*pack_b)(const PackTask& task);
  void (*multiply)(const MultiplyTask& task);             // fma(slice, sa * sb, acc)
  void (*multiply_one_by_one)(const MultiplyTask& task);  // fma(slice * sa, sb, acc)
  void (*store)(const StoreTask& task);
};

// A micro-tile each, the one that is taken unless another is asked for first.
std::span<const GemmKernels> gemm_kernels_avx2();
std::span<const GemmKernels> gemm_kernels_avx512();

// How products are cut. Memory beyond the operands is bounded: see bytes().
struct GemmChunks {
  std::int64_t rows = 0;   // of the largest chunk, whole panels
  std::int64_t cols = 0;   // of the largest chunk, whole panels
  std::int64_t depth = 0;  // contraction packed at a time, whole slices
  std::int64_t lines = 0;  // of all panels of a and b that are packed at once
  std::int64_t acc = 0;    // floats of the chunks that are computed at once
  std::int64_t slice = kBlock;

  // Floats of a line, scales included.
  std::int64_t line_floats() const { return depth + depth / slice; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(lines * line_floats() + acc) * sizeof(float);
  }
};

inline constexpr std::int64_t kMaxChunk = 2048;  // rows and columns: 16 MiB of acc

GemmChunks gemm_chunks(const ProductBounds& bounds, const GemmKernels& kernels,
                       std::int64_t max_chunk = kMaxChunk);

// How the products of a problem are computed: a micro-tile, and how they are cut.
struct SimdProducts {
  const GemmKernels* kernels;
  GemmChunks cut;
  double predicted = 1;  // its time over that of the first, without what chunks change
};
// Every way there is, the one that is taken first, on a machine that has AVX2. No two are the same.
std::vector<SimdProducts> simd_products(const ProductBounds& bounds, const Machine& machine);

// Runs products within the bounds that `cut` was made for, with the kernels of one instruction set;
// `workspace` has cut.bytes(). Bits depend neither on the cut nor on the other products.
void run_products(std::span<const CpuProduct> products, const GemmChunks& cut,
                  const GemmKernels& kernels, void* workspace, int threads);

// "avx512 tile=8x48 chunk=2048x2064x256 threads=2"
std::string describe(const SimdProducts& products, int threads);

// The three ways to plan such a product that an implementation has; plan_products(problem, machine, products)
// makes a plan of the operator.
template <class Problem, class PlanProducts>
auto simd_plan(const Problem& problem, const Machine& machine, const PlanProducts& plan_products) {
  return plan_products(problem, machine, simd_products(product_bounds(problem), machine).front());
}
template <class Args, class Problem, class PlanProducts>
std::variant<Planned<Args>, Refusal> simd_plan_with(const Problem& problem, const Machine& machine,
                                                    std::string_view configuration,
                                                    const PlanProducts& plan_products) {
  std::string others;
  for (const SimdProducts& products : simd_products(product_bounds(problem), machine)) {
    const std::string name = describe(products, machine.threads);
    if (name == configuration) return plan_products(problem, machine, products);
    others += "\n    " + name;
  }
  return Refusal{"these run the problem:" + others};
}
template <class Problem>
std::vector<Alternative> simd_configurations(const Problem& problem, const Machine& machine) {
  std::vector<Alternative> result;
  for (const SimdProducts& products : simd_products(product_bounds(problem), machine)) {
    result.push_back({describe(products, machine.threads), products.predicted});
  }
  return result;
}

}  // namespace octet
