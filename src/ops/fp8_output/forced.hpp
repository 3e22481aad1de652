// What becomes of a forced implementation where it cannot run: OCTET_RMS_NORM_BACKEND, and an argument
// of octet check and bench, are one name for forward and backward, with FP8 outputs and without.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/fp8_output/unfused.hpp"

#include <algorithm>

namespace octet {

template <class Problem, class Args>
bool has_name(std::span<const Implementation<Problem, Args>> list, std::string_view name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& entry) { return entry.name == name; });
}

// The name that is forced for backward: none where only forward has an implementation of it, as it has
// for FP8 outputs that backward does not write.
template <class Problem, class ForwardArgs, class BackwardArgs>
std::string forced_for_backward(const std::string& name,
                                std::span<const Implementation<Problem, ForwardArgs>> forward,
                                std::span<const Implementation<Problem, BackwardArgs>> backward) {
  return has_name(forward, name) && !has_name(backward, name) ? "" : name;
}

// The implementation that a check runs for the output that FP8 outputs are compared with: the one that
// unfused would run. A forced one may write FP8 only.
template <class Problem, class Args>
std::string plain_backend(std::span<const Implementation<Problem, Args>> list,
                          const Problem& problem, int threads) {
  const auto* first =
      first_that_takes(list, without_fp8(problem), this_machine(problem.device, threads));
  return first != nullptr ? first->name : "";
}

}  // namespace octet
