#include "ops/rope/head_steps.hpp"

#include "cpu/outputs.hpp"

namespace octet {
namespace {

// Elements [begin, end) of a head, two runs a step.
void add_neighbouring_runs(std::int64_t begin, std::int64_t end, std::int64_t run,
                           std::vector<HeadStep>& steps) {
  for (std::int64_t i = begin; i < end; i += 2 * run) {
    steps.push_back({(i - begin) / 2, i, std::min(run, end - i), i + run,
                     std::clamp<std::int64_t>(end - i - run, 0, run)});
  }
}

void add_runs_of_both_halves(std::int64_t half, std::int64_t run, std::vector<HeadStep>& steps) {
  for (std::int64_t i = 0; i < half; i += run) {
    const std::int64_t count = std::min(run, half - i);
    steps.push_back({i, i, count, half + i, count});
  }
}

}  // namespace

HeadSteps::HeadSteps(const RotatedHeads& heads, std::int64_t run) {
  if (heads.rotation.style == RopeStyle::interleaved) {
    add_neighbouring_runs(0, heads.rotation.rotary_dim, run, all);
  } else {
    add_runs_of_both_halves(heads.pairs(), run, all);
  }
  rotated = static_cast<std::int64_t>(all.size());
  add_neighbouring_runs(heads.rotation.rotary_dim, heads.head_dim, run, all);
}

AngleRows angle_rows(const RotatedHeads& heads, const RotationArgs& args, bool inverse,
                     std::int64_t batch, std::int64_t token) {
  const Rotation& rotation = heads.rotation;
  const std::int64_t row = position_of(rotation, args, batch, token);
  const auto row_of = [&](const TensorView& cache) {
    return static_cast<const char*>(cache.data) +
           row * cache.strides[0] * size_bytes(rotation.cache_dtype);
  };
  return {row_of(args.cos), row_of(args.sin), rotation.style == RopeStyle::interleaved,
          rotation.full_cache, inverse};
}

bool streams(const TensorView& out, const HeadSteps& steps) {
  const auto on_line = [&](std::int64_t element) {
    return element * size_bytes(out.dtype) % kCacheLine == 0;
  };
  return streams(out) && std::all_of(steps.all.begin(), steps.all.end(), [&](const HeadStep& step) {
           return on_line(step.first) && (step.second_count == 0 || on_line(step.second));
         });
}

}  // namespace octet
