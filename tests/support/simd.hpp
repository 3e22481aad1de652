// Shared by the tests of SIMD kernels: the instruction sets of this machine, and random choices.
#pragma once

#include "cpu/instruction_set.hpp"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace octet {

using Random = std::mt19937_64;

template <class T, std::size_t N>
T any_of(const T (&choices)[N], Random& random) {
  return choices[random() % N];
}

// The instruction sets of this machine for which SIMD kernels are compiled.
inline std::vector<InstructionSet> instruction_sets() {
  const Machine machine = this_machine(kCpu, 1);
  std::vector<InstructionSet> result;
  if (machine.avx2) result.push_back(InstructionSet::avx2);
  if (machine.avx512) result.push_back(InstructionSet::avx512);
  return result;
}

// Their names: "avx2".
inline std::vector<std::string> simd_names() {
  std::vector<std::string> names;
  for (const InstructionSet instructions : instruction_sets()) names.push_back(name(instructions));
  return names;
}

}  // namespace octet
