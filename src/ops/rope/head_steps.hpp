// How the SIMD kernels walk through a head: step by step, two runs of elements at a time.
//
//   rotate_half   a run of the first half, and the run of the second half that is rotated with it
//   interleaved   two neighbouring runs, whole pairs in each
//   not rotated   two neighbouring runs of the elements after them
#pragma once

#include "core/message.hpp"
#include "ops/rope/rotation.hpp"

#include <algorithm>
#include <vector>

namespace octet {

struct HeadStep {
  std::int64_t pair = 0;         // the first pair that the step rotates
  std::int64_t first = 0;        // element of the head where a run starts
  std::int64_t first_count = 0;  // at most a run
  std::int64_t second = 0;
  std::int64_t second_count = 0;
};

// `run`: the elements of two vectors of f32.
struct HeadSteps {
  std::vector<HeadStep> all;  // those that rotate come first
  std::int64_t rotated = 0;   // how many rotate

  HeadSteps(const RotatedHeads& heads, std::int64_t run);
};

// Limited because the angles of a token are on the stack.
inline constexpr std::int64_t kMostPairs = 1024;
inline std::string refuse_long_rotation(const RotatedHeads& heads) {
  if (heads.pairs() <= kMostPairs) return "";
  return text("rotary_dim is ", heads.rotation.rotary_dim, ", at most ", 2 * kMostPairs,
              " are taken");
}

// A run of cos and of sin per step that rotates, in the order the kernels read them.
struct StepAngles {
  alignas(64) float cos[kMostPairs + 64];
  alignas(64) float sin[kMostPairs + 64];
};

// The rows of cos and sin of a token, and their order.
struct AngleRows {
  const void* cos = nullptr;
  const void* sin = nullptr;
  bool interleaved = false;  // pairs are neighbours in a head
  bool full = false;         // caches have each value twice
  bool inverse = false;
};
AngleRows angle_rows(const RotatedHeads& heads, const RotationArgs& args, bool inverse,
                     std::int64_t batch, std::int64_t token);

using PrepareAngles = void (*)(const AngleRows&, const HeadSteps&, StepAngles&);

// The index of a kernel in a list by style: rotate_half, interleaved.
inline int kernel_index(RopeStyle style) { return style == RopeStyle::interleaved ? 1 : 0; }

// As streams() of cpu/outputs.hpp, if every run of a head also starts on a cache line.
bool streams(const TensorView& out, const HeadSteps& steps);

// Tokens cut into tasks: enough of them to balance the threads.
class TokenTasks {
 public:
  TokenTasks(std::int64_t tokens, int threads)
      : tokens_(tokens), length_(std::clamp<std::int64_t>(tokens / (threads * 16), 1, 64)) {}

  std::int64_t count() const { return ceil_div(tokens_, length_); }
  std::int64_t begin(std::int64_t task) const { return std::min(task * length_, tokens_); }

 private:
  std::int64_t tokens_;
  std::int64_t length_;
};

}  // namespace octet
