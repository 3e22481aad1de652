// What ncu --csv --page raw prints: a row of names, a row of units and a row per launch, among
// lines of its own that begin with "==".
#pragma once

#include "tool/profile/counters.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct KernelLaunch {
  std::string function;  // "void octet::sm90::gemm_kernel<...>(...)"
  std::string grid;      // "(132, 1, 1)"
  std::string block;
  Metrics metrics{};  // without those that ncu has no value for
};

// The launches in their order; none if there is no table. Throws UsageError if it is not CSV.
std::vector<KernelLaunch> parse_ncu(std::string_view text);

// Those of `asked` that an error in the text says do not exist. ncu then profiles nothing.
std::vector<std::string> unknown_metrics(std::string_view text,
                                         const std::vector<std::string>& asked);

// The error by which ncu says that it was refused the counters: "ERR_NVGPUCTRPERM", or in a sandbox
// "LibraryNotLoaded"; empty if it was not.
std::string refusal_of_counters(std::string_view text);

// "gemm_kernel" for "void octet::sm90::gemm_kernel<...>(...)".
std::string short_name(std::string function);

}  // namespace octet::tool
