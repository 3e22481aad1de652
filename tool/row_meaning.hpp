// What a row of an operator says to who compares rows of many runs.
#pragma once

#include "record.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct RowMeaning {
  std::string op;                          // "gemm"
  std::vector<std::string> shape_columns;  // {"M", "N", "K"}
  std::string rate_column;                 // more is better
  std::string unit;                        // of the rate
};

// "8x16x32"
std::string shape_of(const RowMeaning& meaning, const Record& record);
// "NVIDIA H200", or "Intel(R) Xeon(R) Processor, 2 threads"
std::string device_of(const Record& record);
// What makes two rows of one shape and dtype on one device comparable: the options of its command
// but those that say which case, where, for how long and on which data.
std::string settings_of(const Record& record);

}  // namespace octet::tool
