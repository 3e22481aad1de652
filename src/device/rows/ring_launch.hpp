// Launches of kernels whose dynamic shared memory differs from launch to launch, as that of a ring
// of rows does.
#pragma once

#include "device/launch.hpp"

namespace octet::cuda {

// As launch(): the kernel begins with ptx::wait_for_earlier_kernels().
void launch_ring(const Launch& launch, void** arguments);

}  // namespace octet::cuda
