// The functions of libcublasLt that octet calls, for the CUDA sources only.
#pragma once

#include <cublasLt.h>

namespace octet::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulDescCreate) operation_create;
  decltype(&cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmul) matmul;
};

// Loads the library at the first call; throws Error(unsupported) where there is none.
const CublasLt& cublaslt();

// The handle of a device, made at its first use and kept; any thread may use it.
cublasLtHandle_t cublaslt_handle(int device);

// Throws Error with the library's own words.
void check(cublasStatus_t status, const char* what);

}  // namespace octet::cuda
