// Carries a configuration struct as a type: a struct used directly as template argument of a
// __global__ function breaks the host stub of nvcc 13.0.
#pragma once

namespace octet {

template <auto kValue>
struct Constant {
  static constexpr auto value = kValue;
};

}  // namespace octet
