// libcublasLt is found and loaded at run time: octet has no link to it.
#pragma once

namespace octet::cuda {

// Its names, the preferred first.
inline constexpr const char* kCublasLtNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// Whether the loader would find it. Loads nothing: mapping the library takes 0.3 s (13.1, 540 MB),
// which a plan that may not use it must not pay.
bool cublaslt_is_installed();

}  // namespace octet::cuda
