// The rows of a profile, one per kernel of a call, and those of two builds beside each other.
#pragma once

#include "tool/profile/ncu_report.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

struct KernelRow {
  std::string part;    // "forward"
  std::string kernel;  // "gemm_kernel"
  std::string function;
  std::string grid;
  std::string block;
  std::size_t launches = 0;      // how many the counters are the medians of
  std::vector<double> counters;  // as counters() lists them; NaN where there is none
};

// The launches of `calls` calls of a part. Where every call launched the same kernels, as they
// mostly do, a row is a kernel of the call, in their order: a kernel that a call launches for two
// products has two rows. Otherwise a row is a kernel with its grid.
std::vector<KernelRow> kernel_rows(const std::string& part,
                                   const std::vector<KernelLaunch>& launches, std::size_t calls);

struct KernelPair {
  const KernelRow* first = nullptr;  // null: the other build has no such kernel
  const KernelRow* second = nullptr;
};
// Within a part by position, if both builds launch as many kernels; otherwise by name.
std::vector<KernelPair> paired(const std::vector<KernelRow>& first,
                               const std::vector<KernelRow>& second);

}  // namespace octet::tool
