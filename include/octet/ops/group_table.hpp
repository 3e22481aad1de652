// group_table: where each group of rows begins, for operators over groups, such as the experts of a
// mixture. The groups fill the first rows of buffers of `rows` rows, one after the other, in any
// length: groups may be empty, and nothing is padded.
//
// The sizes lie on the device and are never read by the host, so a call can be captured in a graph
// and replayed with other sizes. The table is made once per routing; casts, products and
// activations over groups read it.
//
// Sizes that do not fit are clamped: a negative size counts as 0, an end before the one before it
// as that end, rows beyond the buffers are cut off. Nothing is ever written outside the buffers, and
// the table keeps the first error for check_group_table().
#pragma once

#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <string>

namespace octet {

inline constexpr std::int64_t kMaxGroups = 1024;
inline constexpr std::int64_t kMaxGroupedRows = std::int64_t{1} << 30;

enum class GroupSizes : std::int32_t {
  sizes = 1,  // [groups], the rows of each group
  ends = 2,   // [groups], the row behind each group
  offsets =
      3,  // [groups + 1], the first row of each group and the row behind the last; begins with 0
};

// The rows of an output that lie behind its last group.
enum class GroupTail : std::int32_t { zero = 1, untouched = 2 };

struct GroupTableProblem {
  std::int64_t groups = 0;  // 1 to 1024
  std::int64_t rows = 0;    // of the buffers: 1 to 2^30
  GroupSizes given = GroupSizes::sizes;
  Dtype sizes_dtype = Dtype::i32;  // or i64
  Device device{};
};

struct GroupTableArgs {
  TensorView sizes;  // [groups], or [groups + 1] for offsets; contiguous
  TensorView table;  // [group_table_words(groups, rows)], i32, contiguous, 16-byte aligned
};

using GroupTablePlan = Plan<GroupTableProblem>;

// "group_table --groups 8 --rows 4096 --given sizes --dtype i32 --device cpu"
OCTET_API std::string describe(const GroupTableProblem& problem);
OCTET_API GroupTablePlan plan_group_table(const GroupTableProblem& problem,
                                          const PlanOptions& = {});
OCTET_API void run(const GroupTablePlan& plan, const GroupTableArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

// Elements of a table.
OCTET_API std::int64_t group_table_words(std::int64_t groups, std::int64_t rows);
// Blocks of 128 rows that the groups of such a table need at most, each group beginning a new one.
OCTET_API std::int64_t max_token_blocks(std::int64_t groups, std::int64_t rows);

// What a table says about its groups.
struct GroupTableReport {
  std::int64_t groups = 0;
  std::int64_t rows = 0;           // of the buffers
  std::int64_t grouped_rows = 0;   // rows that belong to a group
  std::int64_t filled_groups = 0;  // groups that have rows
  std::string error;               // the first size that was clamped, in a sentence; or empty
};
// Both copy the head of the table to the host and wait for the stream.
OCTET_API GroupTableReport read_group_table(const TensorView& table, void* stream = nullptr);
// Throws Error if a size was clamped.
OCTET_API void check_group_table(const TensorView& table, void* stream = nullptr);

}  // namespace octet
