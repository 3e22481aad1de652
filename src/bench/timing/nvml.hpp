// NVIDIA's management library, loaded when it is asked for.
#pragma once

#include "bench/timing/gpu_monitor.hpp"

#include <octet/device.hpp>

namespace octet::bench {

// Reads a CUDA device. Where libnvidia-ml.so.1 is missing or does not know the device, every reading
// is empty: a result without clocks is still a result.
ReadGpu nvml_reader(Device device);

}  // namespace octet::bench
