#include "check/data/group_sizes.hpp"

#include "check/data/random.hpp"
#include "core/message.hpp"

#include <octet/ops/group_table.hpp>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace octet {
namespace {

using Kind = GroupSpread::Kind;
using Sizes = std::vector<std::int64_t>;

constexpr std::pair<Kind, std::string_view> kNames[] = {{Kind::balanced, "balanced"},
                                                        {Kind::skewed, "skewed"},
                                                        {Kind::zipf, "zipf"},
                                                        {Kind::half_empty, "half-empty"},
                                                        {Kind::one_hot, "one-hot"}};

// Distinct from the streams that make data and draw samples.
constexpr std::uint32_t kSizeStream = 0x67;
constexpr std::uint32_t kSourceStream = 0x68;

std::int64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

// Every `step`-th group has rows; the first ones have those that are left over.
Sizes balanced(std::int64_t groups, std::int64_t rows, std::int64_t step) {
  Sizes sizes(static_cast<std::size_t>(groups), 0);
  const std::int64_t filled = (groups + step - 1) / step;
  for (std::int64_t i = 0; i < filled; ++i) {
    sizes[static_cast<std::size_t>(i * step)] = rows / filled + (i < rows % filled ? 1 : 0);
  }
  return sizes;
}

// Rounded down; group `rest` has what is left over.
Sizes proportional(const std::vector<double>& weights, std::int64_t rows, std::size_t rest) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  Sizes sizes;
  for (const double weight : weights) {
    sizes.push_back(static_cast<std::int64_t>(static_cast<double>(rows) * (weight / total)));
  }
  sizes[rest] += rows - sum(sizes);
  return sizes;
}

Sizes skewed(std::int64_t groups, std::int64_t rows, RandomStream stream) {
  std::vector<double> weights;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto counter = static_cast<std::uint64_t>(g);
    const double u = random_words(stream, RandomUse::sample, counter).word[0] * 0x1p-32;
    weights.push_back(0.2 + 0.8 * u);
  }
  return proportional(weights, rows, weights.size() - 1);
}

Sizes zipf(std::int64_t groups, std::int64_t rows, RandomStream stream) {
  std::vector<double> weights;
  for (std::int64_t g = 0; g < groups; ++g) weights.push_back(1.0 / static_cast<double>(g + 1));
  for (std::size_t g = weights.size(); g > 1; --g) {
    std::swap(weights[g - 1],
              weights[random_below(stream, RandomUse::sample, g, static_cast<std::uint32_t>(g))]);
  }
  const auto largest = std::max_element(weights.begin(), weights.end());
  return proportional(weights, rows, static_cast<std::size_t>(largest - weights.begin()));
}

Sizes one_hot(std::int64_t groups, std::int64_t rows, RandomStream stream) {
  Sizes sizes(static_cast<std::size_t>(groups), 0);
  sizes[random_below(stream, RandomUse::sample, 0, static_cast<std::uint32_t>(groups))] = rows;
  return sizes;
}

const Sizes& checked(const Sizes& sizes, std::int64_t groups, std::int64_t rows) {
  if (static_cast<std::int64_t>(sizes.size()) != groups) {
    refuse_argument("group sizes: ", sizes.size(), " sizes were given for ", groups, " groups");
  }
  if (sum(sizes) > rows) {
    refuse_argument("group sizes: their sum must be at most the ", rows, " rows, got ", sum(sizes));
  }
  return sizes;
}

}  // namespace

std::string name(const GroupSpread& spread) {
  for (const auto& [kind, text] : kNames) {
    if (spread.kind == kind) return std::string(text);
  }
  std::string result;
  for (const std::int64_t size : spread.sizes) {
    result += (result.empty() ? "" : ",") + std::to_string(size);
  }
  return result;
}

std::optional<GroupSpread> parse_group_spread(std::string_view text) {
  for (const auto& [kind, name] : kNames) {
    if (text == name) return GroupSpread{kind};
  }
  GroupSpread spread{Kind::given};
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t size = -1;
    const auto [next, error] = std::from_chars(at, end, size);
    // Rows are at most 2^30, so the sum of as many sizes as there are groups fits 64 bits.
    if (error != std::errc{} || size < 0 || size > kMaxGroupedRows) return std::nullopt;
    spread.sizes.push_back(size);
    if (std::cmp_greater(spread.sizes.size(), kMaxGroups)) return std::nullopt;
    if (next == end) return spread;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
}

Sizes group_sizes(const GroupSpread& spread, std::int64_t groups, std::int64_t rows,
                  std::uint64_t seed) {
  const RandomStream stream{seed, kSizeStream};
  switch (spread.kind) {
    case Kind::balanced: return balanced(groups, rows, 1);
    case Kind::skewed: return skewed(groups, rows, stream);
    case Kind::zipf: return zipf(groups, rows, stream);
    case Kind::half_empty: return balanced(groups, rows, 2);
    case Kind::one_hot: return one_hot(groups, rows, stream);
    case Kind::given: return checked(spread.sizes, groups, rows);
  }
  return {};
}

Tensor make_group_table(const Sizes& sizes, std::int64_t rows, Device device) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  run(plan_group_table({.groups = groups, .rows = rows, .sizes_dtype = Dtype::i64}),
      {make_view(sizes.data(), Dtype::i64, {groups}), table});
  check_group_table(table);
  if (device == kCpu) return table;
  Tensor there(Dtype::i32, {group_table_words(groups, rows)}, device);
  copy(table, there);
  return there;
}

std::vector<std::int32_t> draw_source(const Sizes& sizes, std::int64_t rows,
                                      std::int64_t source_rows, std::uint64_t seed) {
  std::vector<std::int32_t> source(static_cast<std::size_t>(rows), -1);
  auto group = source.begin();
  std::uint64_t counter = 0;
  for (const std::int64_t size : sizes) {
    std::generate_n(group, size, [&] {
      return static_cast<std::int32_t>(random_below({seed, kSourceStream}, RandomUse::sample,
                                                    counter++,
                                                    static_cast<std::uint32_t>(source_rows)));
    });
    std::sort(group, group + size);
    group += size;
  }
  return source;
}

}  // namespace octet
