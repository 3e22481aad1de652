// The kernels of every instruction set, and the implementations that run the best of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm_rope/cpu_simd_kernels.cpp"
#include "cpu/instruction_set.hpp"
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
    {norm_forward<SplitF32>, norm_forward<SplitF16>, norm_forward<SplitBf16>},
    {norm_backward<SplitF32>, norm_backward<SplitF16>, norm_backward<SplitBf16>},
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

namespace {

// Neighbouring elements must fall into one pair of lanes.
std::string refuse_odd_halves(const RotatedHeads& heads) {
  if (heads.rotation.style == RopeStyle::interleaved || heads.pairs() % 2 == 0) return "";
  return text("half of rotary_dim is ", heads.pairs(), ", which is odd");
}

std::string refuse_simd(const RmsNormRopeProblem& problem, const Machine& machine) {
  const RotatedHeads heads = rotated_heads(problem);
  for (const std::string& refusal : {refuse_off_cpu(problem.device), refuse_without_avx2(machine),
                                     refuse_long_rotation(heads), refuse_odd_halves(heads)}) {
    if (!refusal.empty()) return refusal;
  }
  return "";
}

}  // namespace

const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuSimd{
    "cpu_simd",
    refuse_simd,
    [](const RmsNormRopeProblem& problem, const Machine& machine) {
      return planned_simd<RmsNormRopeForwardArgs>(
          problem, machine, rms_norm_rope_simd_bytes(problem, false),
          [](const RmsNormRopeProblem& same, const RmsNormRopeForwardArgs& args,
             const RunContext& context, InstructionSet instructions) {
            rms_norm_rope_forward_simd(same, args, context.workspace, context.threads,
                                       instructions);
          });
    },
};

const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuSimd{
    "cpu_simd",
    refuse_simd,
    [](const RmsNormRopeProblem& problem, const Machine& machine) {
      return planned_simd<RmsNormRopeBackwardArgs>(
          problem, machine, rms_norm_rope_simd_bytes(problem, true),
          [](const RmsNormRopeProblem& same, const RmsNormRopeBackwardArgs& args,
             const RunContext& context, InstructionSet instructions) {
            rms_norm_rope_backward_simd(same, args, context.workspace, context.threads,
                                        instructions);
          });
    },
};

}  // namespace octet
#endif
