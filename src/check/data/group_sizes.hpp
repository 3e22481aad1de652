// The sizes of groups that operators over groups are checked and timed with, and what such operators
// read besides their tensors: the group table, and the source of gathered rows. Deterministic by the
// seed; made on the host.
#pragma once

#include <octet/buffer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// How rows are spread over groups.
struct GroupSpread {
  enum class Kind {
    balanced,    // as even as possible
    skewed,      // in proportion to 0.2 + 0.8 u, u drawn from 0 to 1; the last group has the rest
    zipf,        // in proportion to 1, 1/2, 1/3, ..., shuffled; the largest has the rest
    half_empty,  // every other group is empty, the others are balanced
    one_hot,     // one group has all rows
    given,
  };
  Kind kind = Kind::balanced;
  std::vector<std::int64_t> sizes{};  // given

  friend bool operator==(const GroupSpread&, const GroupSpread&) = default;
};

// "skewed", or "0,1,127" for given sizes.
std::string name(const GroupSpread& spread);
std::optional<GroupSpread> parse_group_spread(std::string_view text);

// The rows of each group: all `rows` together, or fewer if sizes are given. Throws Error if given
// sizes are of another number of groups, or do not fit.
std::vector<std::int64_t> group_sizes(const GroupSpread& spread, std::int64_t groups,
                                      std::int64_t rows, std::uint64_t seed);

// The group table of buffers of `rows` rows.
Tensor make_group_table(const std::vector<std::int64_t>& sizes, std::int64_t rows, Device device);

// For each of `rows` rows, the row of an input of `source_rows` rows that it is read from: drawn,
// ascending within each group, as routing makes them. -1 behind the last group.
std::vector<std::int32_t> draw_source(const std::vector<std::int64_t>& sizes, std::int64_t rows,
                                      std::int64_t source_rows, std::uint64_t seed);

}  // namespace octet
