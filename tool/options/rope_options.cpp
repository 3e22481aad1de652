#include "tool/options/rope_options.hpp"

#include "tool/cases/cases.hpp"
#include "tool/options/data_options.hpp"

#include <limits>

namespace octet::tool {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUsualHeadDim = 128;

// What was given, else what the case has; nothing where neither is there.
std::optional<std::int64_t> number_of(const std::optional<std::int64_t>& given,
                                      const ShapeCase& shape, const std::string& option) {
  const auto of_case = shape.options.find(option);
  if (given || of_case == shape.options.end()) return given;
  std::int64_t value = 0;
  if (!parse_whole(of_case->second, 0, kMost, value)) {
    refuse_usage("{}: {} must be a whole number, got \"{}\"", shape.name, option, of_case->second);
  }
  return value;
}

}  // namespace

void add_rope_options(CLI::App& app, RopeOptions& options) {
  add_whole(app, "--head-dim", options.head_dim, 1, kMost, "features of a head; 128");
  add_whole(app, "--heads", options.heads, 1, kMost, "heads of q, in place of --head-dim");
  add_whole(app, "--kv-heads", options.kv_heads, 0, kMost, "heads of k; 0, no k");
  add_choice(app, "--style", options.style, {"rotate_half", "interleaved"},
             "which elements are a pair; rotate_half");
  add_whole(app, "--rotary-dim", options.rotary_dim, 0, kMost,
            "features of a head that are turned; 0, all");
  add_whole(app, "--cache-rows", options.cache_rows, 0, kMost, "positions in the caches; 0, S");
  add_flag(app, "--full-cache", options.full_cache, "caches with every value twice");
  add_dtype(app, "--cache", options.cache, kFloats, "of the caches; f32");
  add_dtype(app, "--positions", options.positions, {Dtype::i32, Dtype::i64},
            "give the position of every token");
}

HeadCounts head_counts(const RopeOptions& options, const ShapeCase& shape) {
  const std::int64_t hidden = shape.extents[2];
  if (options.heads && options.head_dim) {
    refuse_usage("--heads {} and --head-dim {} say the same of the H of --shape: give one",
                 *options.heads, *options.head_dim);
  }
  if (options.heads && hidden % *options.heads != 0) {
    refuse_usage("the H of --shape must be a multiple of --heads {}, got {}", *options.heads,
                 hidden);
  }
  const std::int64_t head_dim =
      options.heads ? hidden / *options.heads
                    : number_of(options.head_dim, shape, "head-dim").value_or(kUsualHeadDim);
  if (hidden % head_dim != 0) {
    refuse_usage("the H of --shape must be a multiple of --head-dim {}, got {}", head_dim, hidden);
  }
  return {hidden / head_dim, number_of(options.kv_heads, shape, "kv-heads").value_or(0), head_dim};
}

Rotation rotation(const RopeOptions& options) {
  Rotation result;
  if (options.style == "interleaved") result.style = RopeStyle::interleaved;
  result.rotary_dim = options.rotary_dim;
  result.cache_rows = options.cache_rows;
  result.full_cache = options.full_cache;
  result.cache = options.cache.value_or(Dtype::f32);
  result.positions = options.positions;
  return result;
}

}  // namespace octet::tool
