// Quantised tensors of one shape in two layouts: copied, and compared bit by bit.
#pragma once

#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// Writes a tensor into a view of the same shape and block in any layout.
void copy_quantized(const QuantizedView& from, const QuantizedView& to);
// Values and scales of two views of one shape and block that differ in any bit.
std::int64_t count_differences(const QuantizedView& given, const QuantizedView& wanted);

}  // namespace octet
