// Rates from times: operations per second of a product, bytes per second of a memory-bound kernel.
#pragma once

#include <octet/bench/timing.hpp>

namespace octet::bench {

// 2 MNK over the time of one call, in 10^12 operations per second.
OCTET_API double gemm_tflops(std::int64_t m, std::int64_t n, std::int64_t k, double seconds);
// In 10^9 bytes per second.
OCTET_API double gigabytes_per_second(std::size_t bytes, double seconds);

// Times a kernel that reads and writes `bytes` beside a copy that reads half of them and writes the
// other half: ratio 1 is as fast as a copy. The copy uses every core (or OCTET_NUM_THREADS) on the
// CPU, and stays within device memory on CUDA; its buffers rotate over twice the cache.
OCTET_API Comparison compare_with_copy(DeviceTiming& timing, const Part& kernel, std::size_t bytes,
                                       const Protocol& protocol = {});

}  // namespace octet::bench
