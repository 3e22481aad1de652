// The compiled kernels of the Hopper backward, by dtype and head sizes.
#pragma once

#include "ops/attention/sm90/backward/config.hpp"

namespace octet::attention {

struct BackwardKernels {
  BackwardConfig config;
  const void* gradients;  // dk, dv and dq
  const void* prepare;
  int shared_bytes;  // of gradients
};

// Null where there are none.
const BackwardKernels* find_backward_kernels(Dtype dtype, std::int64_t dim_qk, std::int64_t dim_v);

const void* backward_tables_kernel(bool packed);
const void* backward_sink_kernel();

// Which exist, for builds without CUDA too. Head sizes in between are filled with zeros.
constexpr bool has_backward_kernels(Dtype dtype, std::int64_t dim_qk, std::int64_t dim_v) {
  return (dtype == Dtype::bf16 || dtype == Dtype::f16) && dim_qk % 8 == 0 && dim_v % 8 == 0 &&
         dim_qk <= 192 && dim_v <= 128;
}

}  // namespace octet::attention
