// Where the tasks of a suite may run: one at a time in each slot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

struct Slot {
  std::string name;                      // "cuda:3", "cpu"
  std::string device;                    // what --device says in the slot
  std::vector<std::string> environment;  // "NAME=value"
};

// A slot per GPU, or `cpu_slots` of the CPU where there are none or none is wanted. Throws
// UsageError where this machine has fewer GPUs than wanted.
std::vector<Slot> suite_slots(std::optional<std::int64_t> gpus, std::int64_t cpu_slots);

}  // namespace octet::tool
