// What a choice may depend on besides the problem. Read once per plan, so that a choice is a pure
// function of problem, machine and request.
#pragma once

#include <octet/device.hpp>

#include <string>

namespace octet {

struct Machine {
  int threads = 1;      // CPU threads a run may use
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, CD, DQ and VL
  int sm_major = 0;     // of the problem's CUDA device; 0: none
  int sm_minor = 0;
  int multiprocessors = 0;
  bool cublaslt = false;  // libcublasLt can be loaded; checked for CUDA problems only
  int (*cudnn_version)() = [] { return 0; };  // as cuda::cudnn_version(), which loads it
};

// Of which a product may take as many; 0: all.
inline int multiprocessors_of(const Machine& machine, int max_multiprocessors) {
  return max_multiprocessors > 0 && max_multiprocessors < machine.multiprocessors
             ? max_multiprocessors
             : machine.multiprocessors;
}

// threads = 0: OCTET_NUM_THREADS, or else every core this process may use.
Machine this_machine(Device device, int threads);

// "AMD EPYC 9654 96-Core Processor", as /proc/cpuinfo has it; "unknown" where the CPU does not say.
const std::string& cpu_model();

}  // namespace octet
