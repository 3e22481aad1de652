#include "tool/suite/suite_slots.hpp"

#include "tool/options/usage_error.hpp"

#include <octet/device.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

namespace octet::tool {
namespace {

// What CUDA_VISIBLE_DEVICES calls the device that is cuda:index here.
std::string visible_name(std::int64_t index) {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return std::to_string(index);
  std::istringstream names(given);
  std::string name;
  for (std::int64_t i = 0; i <= index; ++i) std::getline(names, name, ',');
  return name;
}

}  // namespace

std::vector<Slot> suite_slots(std::optional<std::int64_t> gpus, std::int64_t cpu_slots) {
  const std::int64_t there = cuda_device_count();
  if (gpus && *gpus > there) {
    refuse_usage("-n {}: this machine has {} GPU{}; -n 0 runs on the CPU", *gpus, there,
                 there == 1 ? "" : "s");
  }
  std::vector<Slot> slots;
  // A process sees its own GPU alone, as cuda:0: so a row says the same on whichever it was
  // measured, and is taken up on any other.
  for (std::int64_t i = 0; i < gpus.value_or(there); ++i) {
    slots.push_back(
        {fmt::format("cuda:{}", i), "cuda:0", {"CUDA_VISIBLE_DEVICES=" + visible_name(i)}});
  }
  if (slots.empty()) slots.assign(static_cast<std::size_t>(cpu_slots), {"cpu", "cpu", {}});
  return slots;
}

}  // namespace octet::tool
