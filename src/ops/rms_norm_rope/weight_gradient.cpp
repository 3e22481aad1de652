#include "ops/rms_norm_rope/weight_gradient.hpp"

#include "cpu/threads.hpp"

#include <algorithm>

namespace octet {

float* GradientRows::cleared_row(std::int64_t run) const {
  float* row = data_ + run * length_;
  std::fill_n(row, length_, 0.0f);
  return row;
}

void GradientRows::add_rows(int threads) const {
  constexpr std::int64_t kColumns = 512;
  parallel_for(threads, ceil_div(length_, kColumns), [&](std::int64_t part) {
    const std::int64_t begin = part * kColumns;
    const std::int64_t end = std::min(begin + kColumns, length_);
    for (std::int64_t run = 1; run < runs_; ++run) {
      const float* row = data_ + run * length_;
      for (std::int64_t c = begin; c < end; ++c) data_[c] += row[c];
    }
  });
}

}  // namespace octet
