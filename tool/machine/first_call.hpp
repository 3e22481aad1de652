// How long the first call of a process takes above an empty CUDA program.
#pragma once

#include <octet/device.hpp>

namespace octet::tool {

// Runs the forward of a small layer as the first thing a process does on a CUDA device and prints
// when its context was there, when the forward was done, and the difference. Throws UsageError
// where there is no such device. The exit status.
int measure_first_call(Device device);

}  // namespace octet::tool
