// What makes rows of many runs comparable, or not.
#pragma once

#include "tool/results/record.hpp"

#include <string>

namespace octet::tool {

// "gemm" of "octet bench gemm --shape ..." and of "tools/peers.py --op gemm ..."; empty where the
// command names no operator.
std::string operator_of(const Record& record);
// "NVIDIA H200", or "Intel(R) Xeon(R) Processor, 2 threads"
std::string device_of(const Record& record);
// Which case it is of: its name and its command, without the options that say where, for how long and on
// which data.
std::string case_of(const Record& record);
// What makes two rows of one shape and dtype on one device comparable: what the environment forced
// and the options of its command but those that say which case, where, for how long and on which data.
std::string settings_of(const Record& record);
// "fp8 blockwise e4m3 grad-format=e4m3 1d prequantized": the options of its command but those that
// say which shape, where, for how long and with what it was run.
std::string problem_of(const Record& record);

}  // namespace octet::tool
