// The maps of a mixture: a bijection of slots and rows, stable, capped, and what is done with
// indices that are no experts and buffers that are too small.
#include "ops/moe_maps/case.hpp"
#include "support/gapped.hpp"
#include "support/refusal.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

namespace octet {
namespace {

using Ints = std::vector<std::int32_t>;

// A vector with a guard of a pattern on both sides.
class Guarded {
 public:
  explicit Guarded(std::int64_t length) : words_(static_cast<std::size_t>(length) + 8, kPattern) {}
  TensorView view() {
    return make_view(words_.data() + 4, Dtype::i32, {static_cast<std::int64_t>(words_.size()) - 8});
  }
  Ints values() const { return {words_.begin() + 4, words_.end() - 4}; }
  bool is_intact() const {
    const auto keeps = [](std::int32_t word) { return word == kPattern; };
    return std::all_of(words_.begin(), words_.begin() + 4, keeps) &&
           std::all_of(words_.end() - 4, words_.end(), keeps);
  }

 private:
  static constexpr std::int32_t kPattern = 0x5A5A5A5A;
  std::vector<std::int32_t> words_;
};

struct Maps {
  MoeMapsProblem problem;
  Gapped row_of;
  Guarded source, sizes;
  Tensor table, status;

  // `indices`: the slots in order.
  Maps(const MoeMapsProblem& given, const std::vector<std::int64_t>& indices)
      : problem(given),
        row_of(Dtype::i32, given.tokens, given.top_k),
        source(given.rows),
        sizes(given.groups),
        table(Dtype::i32, {group_table_words(given.groups, given.rows)}),
        status(Dtype::i32, {kMoeMapsStatusWords}) {
    EXPECT_EQ(static_cast<std::int64_t>(indices.size()), given.tokens * given.top_k);
    const std::vector<std::int32_t> narrow(indices.begin(), indices.end());
    const bool wide = given.indices_dtype == Dtype::i64;
    const void* data = wide ? static_cast<const void*>(indices.data()) : narrow.data();
    run(plan_moe_maps(given), {make_view(data, given.indices_dtype, {given.tokens, given.top_k}),
                               row_of.view(), source.view(), sizes.view(), table, status});
    EXPECT_TRUE(source.is_intact());
    EXPECT_TRUE(sizes.is_intact());
    row_of.expect_gaps_untouched();
  }

  Ints rows() const {  // of the slots in order
    Ints all;
    for (std::int64_t t = 0; t < problem.tokens; ++t) {
      const Ints one = row_of.integers(t);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  MoeMapsReport report() const { return read_moe_maps(status); }
};

TEST(MoeMaps, SortsSlotsByExpert) {
  const Maps maps({.tokens = 3, .top_k = 2, .experts = 3, .groups = 3, .rows = 8},
                  {2, 0, 0, 1, 2, 1});
  EXPECT_EQ(maps.rows(), Ints({4, 0, 1, 2, 5, 3}));
  EXPECT_EQ(maps.source.values(), Ints({1, 2, 3, 5, 0, 4, -1, -1}));
  EXPECT_EQ(maps.sizes.values(), Ints({2, 2, 2}));
  EXPECT_NO_THROW(check_moe_maps(maps.status));
}

TEST(MoeMaps, ExpertsOfOtherRanksAndMinusOneAreNotHere) {
  const Maps maps(
      {.tokens = 3, .top_k = 2, .experts = 8, .first_expert = 2, .groups = 2, .rows = 4},
      {2, 7, -1, 3, 1, 2});
  EXPECT_EQ(maps.rows(), Ints({0, -1, -1, 2, -1, 1}));
  EXPECT_EQ(maps.source.values(), Ints({0, 5, 3, -1}));
  EXPECT_EQ(maps.sizes.values(), Ints({2, 1}));
  EXPECT_EQ(maps.report().error, "");
}

TEST(MoeMaps, CapacityDropsTheLastSlots) {
  const Maps maps({.tokens = 5, .top_k = 1, .experts = 2, .groups = 2, .rows = 5, .capacity = 2},
                  {1, 1, 0, 1, 1});
  EXPECT_EQ(maps.rows(), Ints({1, 2, 0, -1, -1}));
  EXPECT_EQ(maps.source.values(), Ints({2, 0, 1, -1, -1}));
  EXPECT_EQ(maps.sizes.values(), Ints({1, 2}));
  EXPECT_EQ(maps.report().dropped, 2);
  EXPECT_NO_THROW(check_moe_maps(maps.status)) << "dropping is no error";
}

TEST(MoeMaps, BuffersThatAreTooSmallAreFilledAndReported) {
  const Maps maps({.tokens = 4, .top_k = 1, .experts = 3, .groups = 3, .rows = 2}, {2, 1, 1, 1});
  EXPECT_EQ(maps.rows(), Ints({-1, 0, 1, -1}));
  EXPECT_EQ(maps.source.values(), Ints({1, 2}));
  EXPECT_EQ(maps.sizes.values(), Ints({0, 2, 0}));
  EXPECT_EQ(maps.report().cut, 2);
  EXPECT_EQ(refusal([&] { check_moe_maps(maps.status); }),
            "moe_maps: the buffers must have a row for every slot, 2 rows are 2 too few");
}

TEST(MoeMaps, IndicesThatAreNoExpertAreReported) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    const Maps maps(
        {.tokens = 2, .top_k = 2, .experts = 4, .groups = 4, .rows = 4, .indices_dtype = dtype},
        {0, -1, 4, -2});
    EXPECT_EQ(maps.rows(), Ints({0, -1, -1, -1}));
    EXPECT_EQ(maps.report().bad_indices, 2);
    EXPECT_EQ(refusal([&] { check_moe_maps(maps.status); }),
              "moe_maps: indices[1, 0] must be -1 or an expert of 0 to 3, got 4");
  }
  const Maps wide(
      {.tokens = 1, .top_k = 1, .experts = 4, .groups = 4, .rows = 4, .indices_dtype = Dtype::i64},
      {(std::int64_t{1} << 32) + 1});
  EXPECT_EQ(wide.report().error, "indices[0, 0] must be -1 or an expert of 0 to 3, got 4294967297");
}

TEST(MoeMaps, NothingHereLeavesNoRows) {
  const Maps none({.tokens = 0, .top_k = 3, .experts = 2, .groups = 2, .rows = 3}, {});
  EXPECT_EQ(none.source.values(), Ints({-1, -1, -1}));
  EXPECT_EQ(none.sizes.values(), Ints({0, 0}));
  const Maps absent({.tokens = 2, .top_k = 2, .experts = 2, .groups = 2, .rows = 3},
                    {-1, -1, -1, -1});
  EXPECT_EQ(absent.rows(), Ints(4, -1));
  EXPECT_EQ(absent.source.values(), Ints({-1, -1, -1}));
  EXPECT_EQ(absent.report().error, "");
}

// What moe_maps promises, slot by slot, from a list of slots per expert.
TEST(MoeMapsProperties, SlotsAndRowsAreABijectionInOrder) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const MapsCase one(seed);
    const MoeMapsProblem& problem = one.problem;
    SCOPED_TRACE(describe(problem) + text(" seed ", seed));
    const Maps maps(problem, one.indices);
    std::map<std::int64_t, Ints> slots_of;
    std::int64_t dropped = 0;
    for (std::size_t slot = 0; slot < one.indices.size(); ++slot) {
      const std::int64_t group = one.indices[slot] - problem.first_expert;
      if (group < 0 || group >= problem.groups) continue;
      Ints& slots = slots_of[group];
      if (problem.capacity > 0 && std::ssize(slots) >= problem.capacity) {
        ++dropped;
      } else {
        slots.push_back(static_cast<std::int32_t>(slot));
      }
    }
    Ints wanted;
    Ints sizes(static_cast<std::size_t>(problem.groups), 0);
    for (const auto& [group, slots] : slots_of) {
      for (const std::int32_t slot : slots) {
        if (std::ssize(wanted) == problem.rows) break;
        wanted.push_back(slot);
        ++sizes[static_cast<std::size_t>(group)];
      }
    }
    std::int64_t needed = 0;
    for (const auto& [group, slots] : slots_of) needed += std::ssize(slots);
    EXPECT_EQ(maps.report().cut, needed - std::ssize(wanted));
    EXPECT_EQ(maps.report().dropped, dropped);
    Ints rows(one.indices.size(), -1);
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      rows[static_cast<std::size_t>(wanted[row])] = static_cast<std::int32_t>(row);
    }
    wanted.resize(static_cast<std::size_t>(problem.rows), -1);
    EXPECT_EQ(maps.source.values(), wanted);
    EXPECT_EQ(maps.rows(), rows);
    EXPECT_EQ(maps.sizes.values(), sizes);
  }
}

TEST(MoeMapsProperties, TheTableIsThatOfTheSizes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const MapsCase one(seed);
    Maps maps(one.problem, one.indices);
    const Tensor table(Dtype::i32, {group_table_words(one.problem.groups, one.problem.rows)});
    run(plan_group_table({one.problem.groups, one.problem.rows}), {maps.sizes.view(), table});
    EXPECT_EQ(std::memcmp(table.data(), maps.table.data(),
                          static_cast<std::size_t>(table.view().shape[0]) * 4),
              0)
        << describe(one.problem);
    EXPECT_NO_THROW(check_group_table(maps.table));
  }
}

TEST(MoeMapsProperties, OneExpertMayGetEverything) {
  const std::int64_t tokens = 1000;
  const Maps maps({.tokens = tokens, .top_k = 1, .experts = 256, .groups = 256, .rows = tokens},
                  std::vector<std::int64_t>(static_cast<std::size_t>(tokens), 200));
  Ints all(static_cast<std::size_t>(tokens));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(maps.rows(), all);
  EXPECT_EQ(maps.source.values(), all);
  EXPECT_EQ(maps.sizes.values()[200], tokens);
}

TEST(MoeMaps, SaysWhatItIs) {
  MoeMapsProblem problem{.tokens = 512, .top_k = 8, .experts = 64, .groups = 64, .rows = 4096};
  EXPECT_EQ(describe(problem),
            "moe-maps --shape 512x8 --experts 64 --rows 4096 --dtype i32 --device cpu");
  problem.first_expert = 16;
  problem.groups = 8;
  problem.capacity = 100;
  EXPECT_EQ(describe(problem),
            "moe-maps --shape 512x8 --experts 64 --first-expert 16 --groups 8 --rows 4096 "
            "--capacity 100 --dtype i32 --device cpu");
}

}  // namespace
}  // namespace octet
