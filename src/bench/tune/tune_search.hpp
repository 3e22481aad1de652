// The search of tune(), with any way to compare two kernels.
#pragma once

#include <octet/bench/tune.hpp>

namespace octet::bench {

// A new best has to be this much faster.
inline constexpr double kLeastGain = 1.02;

// The second's time over the first's, in interleaved rounds.
using CompareKernels = std::function<double(const Part& first, const Part& second)>;

Tuned search(const TuneRequest& request, const std::string& device, const TunableKernel& kernel,
             const Gate& gate, const CompareKernels& compare);

}  // namespace octet::bench
