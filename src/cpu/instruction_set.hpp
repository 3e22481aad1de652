// The instruction sets the SIMD kernels are compiled for, and the one a machine runs.
#pragma once

#include "dispatch/implementation.hpp"

#include <string>

namespace octet {

enum class InstructionSet { avx2, avx512 };

// Of a machine with AVX2.
inline InstructionSet best_instruction_set(const Machine& machine) {
  return machine.avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
}

inline std::string name(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? "avx512" : "avx2";
}

// Empty: the SIMD kernels run here.
inline std::string refuse_without_avx2(const Machine& machine) {
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

}  // namespace octet
