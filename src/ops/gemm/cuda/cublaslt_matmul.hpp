// A product in cuBLASLt's terms, and the algorithm its heuristic picks for it.
//
// cuBLASLt is column-major, so it computes the transpose: d^T[N, M] = b[N, K] a[M, K]^T. Its A is
// our b, its B our a, and its D the memory of d.
#pragma once

#include "device/cuda/cublaslt_api.hpp"

#include <compare>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace octet {

// Column-major.
struct MatmulMatrix {
  cudaDataType_t type;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t pitch;                      // elements from one column to the next
  std::uint32_t align_bytes;               // of the first element
  cublasOperation_t operation;             // N, or T if the product reads it transposed
  cublasLtMatmulMatrixScale_t scale_mode;  // FP8 only

  auto operator<=>(const MatmulMatrix&) const = default;
};

// All that the choice of an algorithm depends on.
struct Matmul {
  int device;
  MatmulMatrix a;
  MatmulMatrix b;
  MatmulMatrix d;
  bool fast_accumulation;          // FP8 only: sums stay in the tensor cores
  std::uint32_t bias_align_bytes;  // of a vector of d's type that is added to every column; 0: none

  auto operator<=>(const Matmul&) const = default;
};

template <class Descriptor>
using OwnedDescriptor =
    std::unique_ptr<std::remove_pointer_t<Descriptor>, cublasStatus_t (*)(Descriptor)>;

using MatmulOperation = OwnedDescriptor<cublasLtMatmulDesc_t>;
using MatmulLayout = OwnedDescriptor<cublasLtMatrixLayout_t>;

// What an operation points to besides the matrices; null where there is none.
struct MatmulPointers {
  const void* a_scales;
  const void* b_scales;
  const void* bias;
};

// Holds the pointers, so it belongs to one call.
MatmulOperation make_operation(const Matmul& matmul, const MatmulPointers& pointers);

struct MatmulAlgorithm {
  MatmulLayout a;
  MatmulLayout b;
  MatmulLayout d;
  cublasLtMatmulAlgo_t algorithm;
};

// From the cache, or else from the heuristic. Throws Error(unsupported) if it has none.
std::shared_ptr<const MatmulAlgorithm> find_algorithm(const Matmul& matmul,
                                                      const MatmulOperation& operation);

}  // namespace octet
