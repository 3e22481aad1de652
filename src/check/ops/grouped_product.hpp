// What the checks of grouped products share: groups of rows among NaNs, outputs in guarded memory,
// and the gates of each group, of which the report keeps the worst.
#pragma once

#include "check/data/group_sizes.hpp"
#include "check/judge/trial.hpp"

#include <vector>

namespace octet {

// The rows of every group, on the device whose operator is checked.
class GroupedRows {
 public:
  GroupedRows(std::int64_t groups, std::int64_t rows, const DataOptions& options,
              Device device = kCpu);

  std::int64_t groups() const { return static_cast<std::int64_t>(sizes_.size()); }
  std::int64_t rows() const { return rows_; }  // of the buffers
  std::int64_t begin(std::int64_t group) const { return begin_[static_cast<std::size_t>(group)]; }
  std::int64_t size(std::int64_t group) const { return sizes_[static_cast<std::size_t>(group)]; }
  std::int64_t end() const { return begin_.back(); }  // of the last group
  const TensorView& table() const { return table_.view(); }
  Device device() const { return device_; }

  // The rows of one group of [T, cols].
  TensorView of(const TensorView& matrix, std::int64_t group) const;
  // [T, cols] of random numbers, and NaN behind the last group; the same as [rows, T].
  Tensor random_rows(Dtype dtype, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options) const;
  Tensor random_columns(Dtype dtype, std::int64_t rows, std::uint32_t stream,
                        const DataOptions& options) const;

 private:
  std::int64_t rows_;
  Device device_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> begin_;  // groups + 1
  Tensor table_;
};

// [groups, rows, cols] of random numbers.
Tensor random_batch(Dtype dtype, std::int64_t groups, std::int64_t rows, std::int64_t cols,
                    std::uint32_t stream, const DataOptions& options, Device device);
// A matrix [groups * rows, cols] as [groups, rows, cols]; the rows may have a pitch.
TensorView as_batch(const TensorView& matrix, std::int64_t groups);

// One output of a grouped operator, written by two calls: [T, cols], or [groups, rows, cols].
class GroupedOutput {
 public:
  // Over rows; `tail` says what must become of the rows behind the last group.
  GroupedOutput(const GroupedRows& rows, GroupTail tail, Dtype dtype, std::int64_t cols,
                const DataOptions& options);
  // A gradient per group; with `old`, [groups, n, k], it is added to.
  GroupedOutput(const GroupedRows& rows, Dtype dtype, std::int64_t n, std::int64_t k,
                const TensorView& old, const DataOptions& options);

  TensorView view(int call) const;  // 0 or 1
  TensorView of(std::int64_t group) const;
  TensorView old(std::int64_t group) const;
  bool over_rows() const { return over_rows_; }

  // G5, G6, and the bits of what no product writes: rows behind the last group and empty groups.
  void judge_memory(const std::string& tensor, GateReport& report) const;

 private:
  std::int64_t unwritten_parts_that_differ() const;

  const GroupedRows& rows_;
  bool over_rows_;
  GroupTail tail_ = GroupTail::zero;
  Dtype dtype_;
  TensorView old_{};
  GuardedMatrix first_;
  GuardedMatrix second_;
};

// Gathers the gates of one tensor, group after group: each gate passes if it does for every group,
// and the one with the lowest SNR is shown.
class WorstOfGroups {
 public:
  void add(std::int64_t group, std::vector<GateResult> results);
  void move_to(GateReport& report);

 private:
  std::vector<GateResult> worst_;  // one per gate
};

}  // namespace octet
