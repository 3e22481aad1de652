#include "core/message.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/gemm/cuda/cublaslt_matmul.hpp"

#include <map>
#include <mutex>

namespace octet {
namespace {

using cuda::check;
using cuda::cublaslt;

using Preference = OwnedDescriptor<cublasLtMatmulPreference_t>;

template <class Value>
void set(const MatmulOperation& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublaslt().operation_set(operation.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check(cublaslt().preference_set(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

MatmulLayout make_layout(const MatmulMatrix& matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublaslt().layout_create(&layout, matrix.type, static_cast<std::uint64_t>(matrix.rows),
                                 static_cast<std::uint64_t>(matrix.cols), matrix.pitch),
        "cublasLtMatrixLayoutCreate");
  return {layout, cublaslt().layout_destroy};
}

// No split of the contraction: one f32 accumulator per element, rounded once, the same bits every
// run.
Preference make_preference(const Matmul& matmul) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublaslt().preference_create(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference{made, cublaslt().preference_destroy};
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(kCublasLtWorkspaceBytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, matmul.a.align_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, matmul.b.align_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, matmul.d.align_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, matmul.d.align_bytes);
  return preference;
}

std::shared_ptr<const MatmulAlgorithm> ask_heuristic(const Matmul& matmul,
                                                     const MatmulOperation& operation) {
  MatmulAlgorithm result{make_layout(matmul.a), make_layout(matmul.b), make_layout(matmul.d), {}};
  const Preference preference = make_preference(matmul);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  cublasStatus_t status = cublaslt().find_algorithm(
      cuda::cublaslt_handle(matmul.device), operation.get(), result.a.get(), result.b.get(),
      result.d.get(), result.d.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  check(status, "no algorithm for this problem");
  result.algorithm = found.algo;
  return std::make_shared<const MatmulAlgorithm>(std::move(result));
}

}  // namespace

MatmulOperation make_operation(const Matmul& matmul, const MatmulPointers& pointers) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublaslt().operation_create(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  MatmulOperation operation{made, cublaslt().operation_destroy};
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, matmul.a.operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, matmul.b.operation);
  if (pointers.bias != nullptr) {  // of the type of d by default
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  }
  if (pointers.a_scales == nullptr) return operation;
  set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
      static_cast<std::int8_t>(matmul.fast_accumulation ? 1 : 0));
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, matmul.a.scale_mode);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, matmul.b.scale_mode);
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.a_scales);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.b_scales);
  return operation;
}

std::shared_ptr<const MatmulAlgorithm> find_algorithm(const Matmul& matmul,
                                                      const MatmulOperation& operation) {
  using Cache = std::map<Matmul, std::shared_ptr<const MatmulAlgorithm>>;
  static std::mutex mutex;
  static Cache& cache = *new Cache;           // never destroyed: other threads may run at exit
  constexpr std::size_t kMostEntries = 4096;  // about 1 KB each
  const std::lock_guard lock(mutex);
  const auto known = cache.find(matmul);
  if (known != cache.end()) return known->second;
  auto found = ask_heuristic(matmul, operation);
  if (cache.size() >= kMostEntries) cache.clear();
  cache.emplace(matmul, found);
  return found;
}

}  // namespace octet
