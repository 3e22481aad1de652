// A sum as a balanced tree of neighbours, s[i] = s[2i] + s[2i + 1] padded with zeros, until one
// is left: the same f32 additions on every device. At least one zero is added, so no sum is -0.
#pragma once

#include <cstdint>

namespace octet {

class TreeSum {
 public:
  void add(float value) {
    int level = 0;
    for (std::uint64_t rest = count_++; rest % 2 == 1; rest /= 2) value = left_[level++] + value;
    left_[level] = value;
  }
  float sum() const {
    float right = 0;
    for (int level = 0; (count_ >> level) != 0; ++level) {
      if ((count_ >> level) % 2 == 1) right = left_[level] + right;
    }
    return right;
  }

 private:
  std::uint64_t count_ = 0;
  float left_[64] = {};  // by level, the subtree that waits for its right neighbour
};

}  // namespace octet
