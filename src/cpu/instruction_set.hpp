// The instruction sets the SIMD kernels are compiled for, and the one a machine runs.
#pragma once

#include "dispatch/machine.hpp"

#include <string>

namespace octet {

enum class InstructionSet { avx2, avx512 };

// Of a machine with AVX2.
inline InstructionSet best_instruction_set(const Machine& machine) {
  return machine.avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
}

// Of this machine, looked up once.
inline InstructionSet best_instruction_set() {
  static const InstructionSet kBest = best_instruction_set(this_machine(kCpu, 1));
  return kBest;
}

inline std::string name(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? "avx512" : "avx2";
}

// Empty: the SIMD kernels run here.
inline std::string refuse_without_avx2(const Machine& machine) {
  return machine.avx2 ? "" : "this CPU has no AVX2";
}

}  // namespace octet
