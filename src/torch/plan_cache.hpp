// Plans by the bytes of their problem, a cache per device. Making one takes some 30 us, finding one
// well under one. Each cache is bounded: training on thousands of sequence lengths does not grow
// memory, and one device's plans do not evict another's.
#pragma once

#include "torch/error.hpp"

#include <octet/octet.h>

#include <functional>
#include <memory>
#include <string>

namespace octet_torch {

// Shared, so that a plan which another thread evicts lives until the run is over.
struct CachedPlan {
  std::shared_ptr<const octet_plan> plan;
  std::size_t workspace_bytes = 0;

  const octet_plan* get() const { return plan.get(); }
};

CachedPlan find_plan(octet_device device, const std::string& key,
                     const std::function<octet_status(octet_plan**)>& make);

// A problem's padding counts as well: its octet_init function zeroes it.
template <class Problem, class Options>
CachedPlan find_plan(const Problem& problem,
                     octet_status (*make)(const Problem*, const Options*, octet_plan**)) {
  std::string key(reinterpret_cast<const char*>(&problem), sizeof problem);
  key.append(reinterpret_cast<const char*>(&make), sizeof make);
  return find_plan(problem.device, key,
                   [&](octet_plan** plan) { return make(&problem, nullptr, plan); });
}

std::size_t cached_plans();  // on all devices

}  // namespace octet_torch
