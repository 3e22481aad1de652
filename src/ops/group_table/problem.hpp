// The checked problem of group_table, and how operators over groups read a table on the CPU.
#pragma once

#include "core/call.hpp"
#include "device/scheduler/group_table.hpp"
#include "dispatch/implementation.hpp"

#include <algorithm>
#include <span>

namespace octet {

using GroupTableImplementation = Implementation<GroupTableProblem, GroupTableArgs>;

extern const GroupTableImplementation kGroupTableCudaSm90Block;
extern const GroupTableImplementation kGroupTableCpuReference;

// In the order they are tried.
std::span<const GroupTableImplementation> group_table_implementations();

void check(const GroupTableProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const GroupTableProblem& problem, const GroupTableArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// The table on the CPU, for operators that make one as a part of their work. Arguments are checked
// already.
void write_group_table(const GroupTableProblem& problem, const GroupTableArgs& args,
                       const RunContext& context);

// The launcher of the Hopper kernel. Arguments are checked already. Throws Error if CUDA reports
// one.
void launch_sm90_group_table(const GroupTableProblem& problem, const GroupTableArgs& args,
                             const RunContext& context);

// The extents of every operator over groups.
void check_groups(std::string_view op, std::int64_t groups, std::int64_t rows);
// "zero"
std::string_view name(GroupTail tail);
void check_tail(std::string_view op, GroupTail tail);
// Lists the table that such an operator reads.
void read_table(Call& call, const TensorView& table, std::int64_t groups, std::int64_t rows);
// Lists the table that such an operator writes.
void write_table(Call& call, const TensorView& table, std::int64_t groups, std::int64_t rows);

// A table on the CPU. Everything in it is checked, so that a table that was never made, or made for
// other buffers, is an error and not a wrong address.
class GroupRows {
 public:
  GroupRows(std::string_view op, const TensorView& table, std::int64_t groups, std::int64_t rows);

  std::int64_t groups() const { return groups_; }
  std::int64_t begin(std::int64_t group) const { return first_row_[group]; }
  std::int64_t end(std::int64_t group) const { return first_row_[group + 1]; }
  std::int64_t rows(std::int64_t group) const { return end(group) - begin(group); }
  std::int64_t grouped_rows() const { return first_row_[groups_]; }
  // Blocks of 128 rows, each group beginning a new one.
  std::int64_t first_block(std::int64_t group) const { return first_block_[group]; }
  std::int64_t blocks(std::int64_t group) const {
    return first_block_[group + 1] - first_block_[group];
  }
  std::int64_t token_blocks() const { return first_block_[groups_]; }
  // The group that has this block.
  std::int64_t group_of(std::int64_t block) const {
    return std::upper_bound(first_block_, first_block_ + groups_, block) - first_block_ - 1;
  }

 private:
  std::int64_t groups_;
  const std::int32_t* first_row_;
  const std::int32_t* first_block_;
};

}  // namespace octet
