// The formula, one token at a time.
#include "cpu/threads.hpp"
#include "ops/rope/problem.hpp"

#include <cmath>
#include <cstring>

namespace octet {
namespace {

void rotate_head(const RotatedHeads& heads, const TokenAngles& angles, bool inverse,
                 const void* from, void* to) {
  for (std::int64_t pair = 0; pair < heads.pairs(); ++pair) {
    const PairOfElements at = pair_of_elements(heads.rotation, pair);
    const float a = load_f32(from, at.first, heads.dtype);
    const float b = load_f32(from, at.second, heads.dtype);
    const float cos = angles.cos(pair);
    const float sin = inverse ? -angles.sin(pair) : angles.sin(pair);
    store_f32(to, at.first, heads.dtype, std::fma(a, cos, -(b * sin)));
    store_f32(to, at.second, heads.dtype, std::fma(b, cos, a * sin));
  }
  const std::int64_t element_bytes = size_bytes(heads.dtype);
  const std::int64_t rotated_bytes = heads.rotation.rotary_dim * element_bytes;
  std::memmove(static_cast<char*>(to) + rotated_bytes,
               static_cast<const char*>(from) + rotated_bytes,
               static_cast<std::size_t>(heads.head_dim * element_bytes - rotated_bytes));
}

void run_reference(const RopeProblem& problem, const RotateArgs& args, const RunContext& context) {
  const RotatedHeads heads = rotated_heads(problem);
  parallel_for(context.threads, heads.tokens(), [&](std::int64_t index) {
    const std::int64_t batch = index / heads.seq;
    const std::int64_t token = index % heads.seq;
    const TokenAngles angles(heads.rotation, args.rotation, batch, token);
    const auto rotate = [&](const TensorView& from_view, const TensorView& to_view) {
      const HeadsView from = heads_view(from_view);
      const HeadsView to = heads_view(to_view);
      for (std::int64_t h = 0; h < from.heads; ++h) {
        rotate_head(heads, angles, args.inverse, from.head(batch, token, h),
                    to.head(batch, token, h));
      }
    };
    rotate(args.q, args.q_out);
    if (problem.k_heads > 0) rotate(args.k, args.k_out);
  });
}

}  // namespace

constinit const RopeImplementation kRopeCpuReference =
    cpu_reference<RopeProblem, RotateArgs, run_reference>();

}  // namespace octet
