// Which keys a query sees, which queries see a key, and the same for blocks of them. Host and device.
#pragma once

#include "core/numeric.hpp"

#include <octet/ops/attention.hpp>

#include <cstdint>

namespace octet {

// Indices [begin, end); empty if end <= begin.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  OCTET_HOST_DEVICE constexpr bool empty() const { return end <= begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// Blocks of keys or queries [begin, end) that have something visible. Those of [full_begin, full_end) are
// visible as a whole and lie inside the sequence, so that they need no mask; begin <= full_begin <= full_end <= end.
struct BlockRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t full_begin = 0;
  std::int32_t full_end = 0;

  OCTET_HOST_DEVICE constexpr std::int32_t count() const { return end - begin; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// The mask of one sequence.
struct SequenceMask {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t shift = 0;  // key at the place of query 0
  std::int64_t left = kNoWindow;
  std::int64_t right = kNoWindow;

  OCTET_HOST_DEVICE constexpr SequenceMask(const AttentionMask& mask, std::int64_t queries_,
                                           std::int64_t keys_)
      : queries(queries_),
        keys(keys_),
        shift(mask.align == MaskAlignment::bottom_right ? keys_ - queries_ : 0),
        left(mask.left),
        right(mask.right) {}

  // The keys that some query of [first, last] sees: windows move with the query.
  OCTET_HOST_DEVICE constexpr IndexRange keys_of(std::int64_t first, std::int64_t last) const {
    return clamped(left == kNoWindow ? 0 : first + shift - left,
                   right == kNoWindow ? keys : last + shift + right + 1, keys);
  }
  OCTET_HOST_DEVICE constexpr IndexRange keys_of(std::int64_t query) const {
    return keys_of(query, query);
  }
  // The queries that see some key of [first, last].
  OCTET_HOST_DEVICE constexpr IndexRange queries_of(std::int64_t first, std::int64_t last) const {
    return clamped(right == kNoWindow ? 0 : first - shift - right,
                   left == kNoWindow ? queries : last - shift + left + 1, queries);
  }
  OCTET_HOST_DEVICE constexpr IndexRange queries_of(std::int64_t key) const {
    return queries_of(key, key);
  }
  // Whether every query of [first, last] sees every key of [first_key, last_key].
  OCTET_HOST_DEVICE constexpr bool sees_all(std::int64_t first, std::int64_t last,
                                            std::int64_t first_key, std::int64_t last_key) const {
    return (left == kNoWindow || first_key >= last + shift - left) &&
           (right == kNoWindow || last_key <= first + shift + right);
  }

  // The blocks of `size` keys that some query of [first, last] sees.
  OCTET_HOST_DEVICE constexpr BlockRange key_blocks(std::int64_t first, std::int64_t last,
                                                    std::int32_t size) const {
    const IndexRange to_all{left == kNoWindow ? 0 : last + shift - left,
                            right == kNoWindow ? keys : first + shift + right + 1};
    return blocks(keys_of(first, last), to_all, keys, size);
  }
  // The blocks of `size` queries that see some key of [first, last].
  OCTET_HOST_DEVICE constexpr BlockRange query_blocks(std::int64_t first, std::int64_t last,
                                                      std::int32_t size) const {
    const IndexRange to_all{right == kNoWindow ? 0 : last - shift - right,
                            left == kNoWindow ? queries : first - shift + left + 1};
    return blocks(queries_of(first, last), to_all, queries, size);
  }

 private:
  // `some`: visible to some, `to_all`: to all of them; of `count`.
  OCTET_HOST_DEVICE static constexpr BlockRange blocks(IndexRange some, IndexRange to_all,
                                                       std::int64_t count, std::int32_t size) {
    if (some.empty()) return {};
    const auto block = [&](std::int64_t index) { return static_cast<std::int32_t>(index / size); };
    BlockRange range{block(some.begin), block(some.end + size - 1), 0, 0};
    to_all = clamped(to_all.begin, to_all.end, count);
    range.full_begin = to_all.begin >= count ? range.end : block(to_all.begin + size - 1);
    if (range.full_begin < range.begin) range.full_begin = range.begin;
    if (range.full_begin > range.end) range.full_begin = range.end;
    range.full_end = to_all.end <= 0 ? range.begin : block(to_all.end);
    if (range.full_end < range.full_begin) range.full_end = range.full_begin;
    if (range.full_end > range.end) range.full_end = range.end;
    return range;
  }

  OCTET_HOST_DEVICE static constexpr IndexRange clamped(std::int64_t begin, std::int64_t end,
                                                        std::int64_t count) {
    return {begin < 0 ? 0 : begin, end > count ? count : end};
  }
};

}  // namespace octet
