// problem -> plan -> run. A plan says which implementation was chosen and why, and how much
// workspace a run needs. It is immutable: many threads may run one plan, each with a workspace.
#pragma once

#include <octet/export.h>

#include <cstddef>
#include <memory>
#include <string>

namespace octet {

struct PlanOptions {
  // The name of an implementation; it beats OCTET_<OP>_BACKEND. Empty: the first that fits.
  std::string backend{};
  // CPU threads of a run; 0 means OCTET_NUM_THREADS, or else every core. Never changes results.
  int threads = 0;
  // The text of a configuration of the chosen implementation, as in Plan::configuration. If it
  // cannot run the problem, the error says why. Empty: the implementation chooses.
  std::string configuration{};
};

// Scratch memory of one call, aligned to kAlignment, on the device of the problem.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// The pass that a plan runs. Operators with a gradient have a plan for each; others only run
// forward.
struct ForwardPass;
struct BackwardPass;

template <class Problem, class Pass = ForwardPass>
struct Plan {
  Problem problem;
  std::string implementation;  // "cpu_simd"
  std::string configuration;   // "avx512 8x48 threads=2": printable, part of a result's provenance
  std::string why;             // "first of 2 that takes the problem"
  std::size_t workspace_bytes = 0;
  std::shared_ptr<const void> state;  // what run() needs; made only by plan_<operator>()
};

}  // namespace octet
