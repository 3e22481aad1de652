// One group after the other.
#include "core/checks.hpp"
#include "ops/group_table/problem.hpp"

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

// The numbers that the caller gave.
struct Given {
  const TensorView& sizes;

  std::int64_t at(std::int64_t index) const {
    const std::int64_t at = index * sizes.strides[0];
    return sizes.dtype == Dtype::i32 ? static_cast<const std::int32_t*>(sizes.data)[at]
                                     : static_cast<const std::int64_t*>(sizes.data)[at];
  }
};

class TableWriter {
 public:
  TableWriter(const GroupTableProblem& problem, std::int32_t* words)
      : problem_(problem),
        layout_{problem.groups, problem.rows},
        head_{},
        words_(words),
        first_row_(words + layout_.first_row()),
        first_block_(words + layout_.first_block()),
        order_(reinterpret_cast<GroupOrder*>(words + layout_.order())) {
    std::memset(words, 0, static_cast<std::size_t>(layout_.words()) * sizeof(std::int32_t));
    head_.magic = kGroupTableMagic;
    head_.groups = static_cast<std::int32_t>(problem.groups);
    head_.rows = static_cast<std::int32_t>(problem.rows);
    head_.given = problem.given;
  }

  void write(const Given& given) {
    const bool offsets = problem_.given == GroupSizes::offsets;
    if (offsets && given.at(0) != 0) note(GroupError::start, 0, given.at(0));
    for (std::int64_t group = 0; group < problem_.groups; ++group) {
      add_group(group, given.at(group + (offsets ? 1 : 0)));
    }
    head_.grouped_rows = first_row_[problem_.groups];
    head_.token_blocks = first_block_[problem_.groups];
    // Not stable_sort, which allocates memory.
    std::sort(order_, order_ + problem_.groups, [](const GroupOrder& a, const GroupOrder& b) {
      return a.blocks != b.blocks ? a.blocks > b.blocks : a.group < b.group;
    });
    head_.tiles_128 = write_tiles(128, words_ + layout_.tiles_128());
    head_.tiles_256 = write_tiles(256, words_ + layout_.tiles_256());
    std::memcpy(words_, &head_, sizeof(head_));
  }

 private:
  void note(GroupError error, std::int64_t group, std::int64_t value) {
    if (head_.error != GroupError::none) return;
    head_.error = error;
    head_.error_group = static_cast<std::int32_t>(group);
    head_.error_given = value;
  }

  void add_group(std::int64_t group, std::int64_t value) {
    const std::int64_t start = first_row_[group];
    const GroupEnd end = group_end(problem_.given, start, value, problem_.rows);
    if (end.error != GroupError::none) note(end.error, group, value);
    const auto blocks = static_cast<std::int32_t>(ceil_div(end.row - start, kTokenBlock));
    first_row_[group + 1] = static_cast<std::int32_t>(end.row);
    first_block_[group + 1] = first_block_[group] + blocks;
    order_[group] = {static_cast<std::int32_t>(group), first_block_[group], blocks, 0};
    head_.filled_groups += blocks > 0 ? 1 : 0;
  }

  // Returns the number of tiles.
  std::int32_t write_tiles(std::int64_t tile_rows, std::int32_t* words) const {
    auto* tiles = reinterpret_cast<GroupTile*>(words);
    std::int32_t count = 0;
    const auto add = [&](std::int32_t group, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; row += kBandRows) {
        const auto height =
            static_cast<std::int32_t>(ceil_div(std::min(kBandRows, end - row), tile_rows));
        const GroupTile tile{group, static_cast<std::int32_t>(row), static_cast<std::int32_t>(end),
                             32 * count + height};
        std::fill_n(tiles + count, height, tile);
        count += height;
      }
    };
    for (std::int64_t group = 0; group < problem_.groups; ++group) {
      add(static_cast<std::int32_t>(group), first_row_[group], first_row_[group + 1]);
    }
    add(-1, first_row_[problem_.groups], problem_.rows);
    return count;
  }

  const GroupTableProblem& problem_;
  GroupTableLayout layout_;
  GroupTableHead head_;
  std::int32_t* words_;
  std::int32_t* first_row_;
  std::int32_t* first_block_;
  GroupOrder* order_;
};

}  // namespace

void write_group_table(const GroupTableProblem& problem, const GroupTableArgs& args,
                       const RunContext& /*context*/) {
  TableWriter(problem, static_cast<std::int32_t*>(args.table.data)).write({args.sizes});
}

constinit const GroupTableImplementation kGroupTableCpuReference =
    cpu_reference<GroupTableProblem, GroupTableArgs, write_group_table>();

}  // namespace octet
