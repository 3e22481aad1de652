// What the tuning table of this process has for a problem on a machine.
#pragma once

#include "dispatch/choose.hpp"
#include "dispatch/machine.hpp"
#include "dispatch/tuning_table.hpp"

#include <optional>
#include <string_view>

namespace octet {

// The canonical text of a problem for tables: what describe() says without its device, and which pass.
std::string tuning_problem(std::string_view described, bool backward);

// A device as keys have it: "NVIDIA H200, 132 multiprocessors".
std::string tuning_device(Device device, const Machine& machine);

// Where a problem of `op` on a device is found in a table.
TuningKey tuning_key(std::string_view op, std::string_view described, bool backward, Device device,
                     const Machine& machine);

// The entry for a key in the process's table; nothing without a table or an entry. One that was measured
// with another driver or other kernels comes with its refusal.
std::optional<TableEntry> find_tuned(const TuningTable& table, const TuningKey& key);

}  // namespace octet
