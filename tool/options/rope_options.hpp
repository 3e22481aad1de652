// The options of heads and their rotation: the same for rope and rms-norm-rope.
#pragma once

#include "tool/options/options.hpp"
#include "tool/cases/shape_cases.hpp"

#include <octet/ops/rope.hpp>

namespace octet::tool {

struct RopeOptions {
  std::optional<std::int64_t> head_dim;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::string style = "rotate_half";
  std::int64_t rotary_dim = 0;
  std::int64_t cache_rows = 0;
  bool full_cache = false;
  std::optional<Dtype> cache;
  std::optional<Dtype> positions;
};

void add_rope_options(CLI::App& app, RopeOptions& options);

// What a shape BxSxH and the options say of the heads. Throws UsageError where H is no whole number
// of heads.
struct HeadCounts {
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;
  std::int64_t head_dim = 0;
};
HeadCounts head_counts(const RopeOptions& options, const ShapeCase& shape);
Rotation rotation(const RopeOptions& options);

template <class Problem>
void apply(const RopeOptions& options, const ShapeCase& shape, Problem& problem) {
  const HeadCounts heads = head_counts(options, shape);
  problem.batch = shape.extents[0];
  problem.seq = shape.extents[1];
  problem.q_heads = heads.q_heads;
  problem.k_heads = heads.k_heads;
  problem.head_dim = heads.head_dim;
  problem.rotation = rotation(options);
}

}  // namespace octet::tool
