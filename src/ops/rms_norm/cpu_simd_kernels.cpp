#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if OCTET_SIMD_TARGET
#include "ops/rms_norm/backward_row-inl.hpp"
#include "ops/rms_norm/norm_row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// By dtype: f32, f16, bf16.
extern const RmsNormKernels kRmsNormKernels[3];
const RmsNormKernels kRmsNormKernels[3] = {
    {rms_norm_rows::norm_row<EncodeF32>, rms_norm_rows::backward_row<EncodeF32>},
    {rms_norm_rows::norm_row<EncodeF16>, rms_norm_rows::backward_row<EncodeF16>},
    {rms_norm_rows::norm_row<EncodeBf16>, rms_norm_rows::backward_row<EncodeBf16>},
};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const RmsNormKernels& rms_norm_kernels(Dtype dtype, InstructionSet instructions) {
  const RmsNormKernels* kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kRmsNormKernels : N_AVX2::kRmsNormKernels;
  return kernels[dtype == Dtype::f32 ? 0 : dtype == Dtype::f16 ? 1 : 2];
}

}  // namespace octet
#endif
