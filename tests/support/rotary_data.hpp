// The parts of random calls of rope and rms_norm_rope: heads in several layouts, surrounded by
// bytes that must not change, caches and positions.
#pragma once

#include "core/numeric.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace octet::testing {

// Names of every instruction set and the reference.
inline std::vector<std::string> all_ways() {
  std::vector<std::string> ways = simd_names();
  ways.emplace_back("cpu_reference");
  return ways;
}

// Visits every element of a tensor by its index.
template <class Visit>
void for_elements(const TensorView& view, const Visit& visit) {
  std::int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t index = 0;
    std::int64_t rest = n;
    for (int i = view.rank - 1; i >= 0; --i) {
      index += rest % view.shape[i] * view.strides[i];
      rest /= view.shape[i];
    }
    visit(index);
  }
}

inline void fill_normal(const TensorView& view, Random& random) {
  std::normal_distribution<float> normal;
  for_elements(view, [&](std::int64_t i) { store_f32(view.data, i, view.dtype, normal(random)); });
}

enum class HeadsLayout { dense, packed, heads_first };
inline constexpr HeadsLayout kHeadsLayouts[] = {HeadsLayout::dense, HeadsLayout::packed,
                                                HeadsLayout::heads_first};

// [batch, seq, heads, head_dim] at some place in a block of bytes that start as 0xA5.
class HeadsMemory {
 public:
  HeadsMemory(Dtype dtype, const std::array<std::int64_t, 4>& shape, HeadsLayout layout)
      : view_(make_view(static_cast<void*>(nullptr), dtype,
                        {shape[0], shape[1], shape[2], shape[3]})) {
    const std::int64_t offset = layout == HeadsLayout::dense ? 32 : 3;  // 64 bytes of 16-bit data
    if (layout == HeadsLayout::packed) {
      view_.strides[1] = shape[2] * shape[3] + 37;
      view_.strides[0] = shape[1] * view_.strides[1];
    } else if (layout == HeadsLayout::heads_first) {
      view_.strides = {shape[2] * shape[1] * shape[3], shape[3], shape[1] * shape[3], 1};
    }
    memory_ = Buffer(
        static_cast<std::size_t>((shape[0] * view_.strides[0] + 2 * offset) * size_bytes(dtype)));
    std::memset(memory_.data(), 0xA5, memory_.bytes());
    view_.data = static_cast<char*>(memory_.data()) + offset * size_bytes(dtype);
  }

  const TensorView& view() const { return view_; }
  const Buffer& memory() const { return memory_; }
  void copy_from(const HeadsMemory& other) const {
    std::memcpy(memory_.data(), other.memory_.data(), memory_.bytes());
  }
  bool operator==(const HeadsMemory& other) const {
    return std::memcmp(memory_.data(), other.memory_.data(), memory_.bytes()) == 0;
  }

 private:
  TensorView view_;
  Buffer memory_;
};

// q, k and v next to each other in every token of one tensor.
struct PackedHeads {
  std::int64_t q_heads;
  std::int64_t k_heads;
  HeadsMemory memory;

  PackedHeads(Dtype dtype, std::int64_t batch, std::int64_t seq, std::int64_t q, std::int64_t k,
              std::int64_t head_dim)
      : q_heads(q),
        k_heads(k),
        memory(dtype, {batch, seq, q + 2 * k, head_dim}, HeadsLayout::dense) {}

  TensorView q() const { return part(0, q_heads); }
  TensorView k() const { return part(q_heads, k_heads); }
  TensorView v() const { return part(q_heads + k_heads, k_heads); }

 private:
  TensorView part(std::int64_t first, std::int64_t count) const {
    TensorView view = memory.view();
    view.data = static_cast<char*>(view.data) + first * view.strides[2] * size_bytes(view.dtype);
    view.shape[2] = count;
    return view;
  }
};

// Whether two tensors of the same shape have the same bits, whatever their strides.
inline bool equal_elements(const TensorView& x, const TensorView& y) {
  std::vector<float> values;
  for_elements(x, [&](std::int64_t i) { values.push_back(load_f32(x.data, i, x.dtype)); });
  std::size_t next = 0;
  bool equal = true;
  for_elements(y, [&](std::int64_t i) {
    equal = equal && bits_of(values[next++]) == bits_of(load_f32(y.data, i, y.dtype));
  });
  return equal && next == values.size();
}

inline Rotation random_rotation(std::int64_t seq, std::int64_t head_dim, Random& random) {
  Rotation rotation;
  rotation.style = any_of({RopeStyle::rotate_half, RopeStyle::interleaved}, random);
  if (random() % 2 == 0) {
    rotation.rotary_dim = 2 + 2 * static_cast<std::int64_t>(random() % (head_dim / 2));
  }
  rotation.full_cache = random() % 3 == 0;
  rotation.cache_dtype = any_of({Dtype::f32, Dtype::f32, Dtype::bf16, Dtype::f16}, random);
  if (random() % 2 == 0) {
    rotation.positions_dtype = any_of({Dtype::i32, Dtype::i64}, random);
    rotation.cache_rows = any_of<std::int64_t>({1, 3, seq + 5}, random);
  }
  return rotation;
}

// Calls expect_the_same(way, threads) for each of `ways` with several numbers of threads, and from
// two callers at once.
template <class ExpectTheSame>
void by_any_threads(const std::vector<std::string>& ways, const ExpectTheSame& expect_the_same) {
  for (const std::string& way : ways) {
    for (const int threads : {1, 3}) expect_the_same(way, threads);
    std::thread other([&] { expect_the_same(way, 2); });
    expect_the_same(way, 2);
    other.join();
  }
}

// cos and sin for theta 10000, and positions if the rotation uses them.
class RotationData {
 public:
  // For a problem of rope or rms_norm_rope.
  template <class Problem>
  RotationData(const Problem& problem, Random& random)
      : RotationData(problem.rotation, problem.batch, problem.seq, problem.head_dim, random) {}
  RotationData(const Rotation& rotation, std::int64_t batch, std::int64_t seq,
               std::int64_t head_dim, Random& random) {
    const std::int64_t dim = rotation.rotary_dim != 0 ? rotation.rotary_dim : head_dim;
    const std::int64_t rows = rotation.cache_rows != 0 ? rotation.cache_rows : seq;
    const std::int64_t cols = rotation.full_cache ? dim : dim / 2;
    cos_ = Tensor(rotation.cache_dtype, {rows, cols});
    sin_ = Tensor(rotation.cache_dtype, {rows, cols});
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::int64_t column = i % cols;
      const std::int64_t pair = !rotation.full_cache                       ? column
                                : rotation.style == RopeStyle::interleaved ? column / 2
                                                                           : column % (dim / 2);
      const double angle =
          static_cast<double>(i / cols) *
          std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
      store_f32(cos_.data(), i, rotation.cache_dtype, static_cast<float>(std::cos(angle)));
      store_f32(sin_.data(), i, rotation.cache_dtype, static_cast<float>(std::sin(angle)));
    }
    if (!rotation.positions_dtype) return;
    positions_ = Tensor(*rotation.positions_dtype, {batch, seq});
    for (std::int64_t i = 0; i < batch * seq; ++i) {
      set_position(i, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
    }
  }

  void set_position(std::int64_t index, std::int64_t position) const {
    if (positions_.view().dtype == Dtype::i32) {
      static_cast<std::int32_t*>(positions_.data())[index] = static_cast<std::int32_t>(position);
    } else {
      static_cast<std::int64_t*>(positions_.data())[index] = position;
    }
  }
  RotationArgs args() const { return {cos_, sin_, positions_}; }

 private:
  Tensor cos_;
  Tensor sin_;
  Tensor positions_;
};

}  // namespace octet::testing
