// Instantiates the kernels of the Hopper backward.
#include "ops/attention/sm90/backward/kernels.hpp"

#include "ops/attention/sm90/backward/kernel.cuh"
#include "ops/attention/sm90/backward/packed_tables.cuh"

namespace octet::attention {
namespace {

template <BackwardConfig kConfig, DqConfig kDq>
BackwardKernels kernels() {
  return {kConfig,
          reinterpret_cast<const void*>(&backward_kernel<Constant<kConfig>, Constant<kDq>>),
          reinterpret_cast<const void*>(&prepare_kernel<kConfig.dtype, kConfig.dim_v>),
          kBackwardSharedBytes<Constant<kConfig>, Constant<kDq>>};
}

// 64 queries a step where dk and dv take 128 registers or more; scores and dP at once where both fit.
template <Dtype kDtype>
const BackwardKernels* find(int dim_qk) {
  static const BackwardKernels k64 =
      kernels<BackwardConfig{kDtype, 64, 64, 128, 4, true, true}, DqConfig{kDtype, 64, 4}>();
  static const BackwardKernels k128 =
      kernels<BackwardConfig{kDtype, 128, 128, 64, 3, true, true}, DqConfig{kDtype, 128, 4}>();
  static const BackwardKernels k192 =
      kernels<BackwardConfig{kDtype, 192, 128, 64, 3, false, true}, DqConfig{kDtype, 192, 4}>();
  return dim_qk == 64 ? &k64 : dim_qk == 128 ? &k128 : &k192;
}

}  // namespace

const BackwardKernels* find_backward_kernels(Dtype dtype, std::int64_t dim_qk, std::int64_t dim_v) {
  if (!has_backward_kernels(dtype, dim_qk, dim_v)) return nullptr;
  const int filled = filled_sizes(dim_qk, dim_v).qk;
  return dtype == Dtype::bf16 ? find<Dtype::bf16>(filled) : find<Dtype::f16>(filled);
}

const void* backward_tables_kernel(bool packed) {
  return reinterpret_cast<const void*>(packed ? &packed_tables_kernel : &dense_tables_kernel);
}
const void* backward_sink_kernel() { return reinterpret_cast<const void*>(&sink_kernel); }

}  // namespace octet::attention
