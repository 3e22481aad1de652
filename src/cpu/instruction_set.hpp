// The instruction sets the SIMD kernels are compiled for, and the one a machine runs.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/dtype.hpp>

#include <string>

// Highway compiles a file for AVX2 with FMA and for AVX-512, if this is included before
// hwy/foreach_target.h and the kernels are between
//
//   #if OCTET_SIMD_TARGET
//   HWY_BEFORE_NAMESPACE();
//   namespace octet::HWY_NAMESPACE {
//   ...
//   }  // namespace octet::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//   #endif
//
// so that N_AVX2 and N_AVX3 have them. The choice between the two is ours (dispatch/machine.hpp):
// Highway's own chooser would need its shared library at run time. Older CPUs have no fused
// multiply-add, which the frozen arithmetic needs; there the reference runs.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#define OCTET_SIMD_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

// A function compiled once per instruction set, chosen when the program is loaded. For test data
// and references only: operators choose through dispatch. Sanitizers start after that choice is
// made, so their builds have the plain version, with the same results.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OCTET_CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OCTET_CPU_CLONES
#endif

namespace octet {

enum class InstructionSet { avx2, avx512 };

// The best instruction set of a machine that has AVX2.
inline InstructionSet best_instruction_set(const Machine& machine) {
  return machine.avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
}

inline std::string name(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? "avx512" : "avx2";
}

// The index of a kernel in a list by dtype: f32, f16, bf16.
inline int kernel_index(Dtype dtype) {
  return dtype == Dtype::f32 ? 0 : dtype == Dtype::f16 ? 1 : 2;
}

// The refusal every SIMD implementation begins with.
inline std::string refuse_off_simd(Device device, const Machine& machine) {
  if (std::string refusal = refuse_off_cpu(device); !refusal.empty()) return refusal;
  return machine.avx2 ? "" : "this CPU has no AVX2";
}

// The plan of a SIMD implementation: its runs use the best instruction set of the machine.
template <class Args, class Problem>
Planned<Args> planned_simd(
    const Problem& problem, const Machine& machine, std::size_t workspace_bytes,
    std::type_identity_t<void (*)(const Problem&, const Args&, const RunContext&, InstructionSet)>
        run) {
  const InstructionSet instructions = best_instruction_set(machine);
  return {text(name(instructions), " threads=", machine.threads), workspace_bytes,
          [problem, run, instructions](const Args& args, const RunContext& context) {
            run(problem, args, context, instructions);
          }};
}

// An implementation that takes every problem on a CPU with AVX2 and needs no workspace.
template <class Problem, class Args,
          void (*kRun)(const Problem&, const Args&, const RunContext&, InstructionSet)>
constexpr Implementation<Problem, Args> cpu_simd() {
  return {"cpu_simd",
          [](const Problem& problem, const Machine& machine) {
            return refuse_off_simd(problem.device, machine);
          },
          [](const Problem& problem, const Machine& machine) {
            return planned_simd<Args>(problem, machine, 0, kRun);
          }};
}

}  // namespace octet
