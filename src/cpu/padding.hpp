// What every CPU implementation of a quantised output shares.
#pragma once

#include <octet/quantized.hpp>

namespace octet {

// Clears the padding of a view that owns it: values to 0, scales to 1. Nothing otherwise.
void clear_padding(const QuantizedView& view);

}  // namespace octet
