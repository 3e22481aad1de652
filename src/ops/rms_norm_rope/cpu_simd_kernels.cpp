// The kernels of every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm_rope/cpu_simd_kernels.cpp"
#include "cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>

#include "ops/rms_norm_rope/norm_kernel-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

extern const NormRopeKernels kNormRopeKernels;
const NormRopeKernels kNormRopeKernels{
    kRun,
    {prepare_angles<SplitF32>, prepare_angles<SplitF16>, prepare_angles<SplitBf16>},
    {split_weights<SplitF32>, split_weights<SplitF16>, split_weights<SplitBf16>},
    {{norm_forward<SplitF32, false>, norm_forward<SplitF16, false>, norm_forward<SplitBf16, false>},
     {norm_forward<SplitF32, true>, norm_forward<SplitF16, true>, norm_forward<SplitBf16, true>}},
    {{norm_backward<SplitF32, false>, norm_backward<SplitF16, false>,
      norm_backward<SplitBf16, false>},
     {norm_backward<SplitF32, true>, norm_backward<SplitF16, true>,
      norm_backward<SplitBf16, true>}},
};

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace octet {

const NormRopeKernels& norm_rope_kernels(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? N_AVX3::rotary::kNormRopeKernels
                                                : N_AVX2::rotary::kNormRopeKernels;
}

}  // namespace octet
#endif
