// A counting sort: the slots of every expert are counted, then each slot in turn takes the next row
// of its expert.
#include "ops/group_table/problem.hpp"
#include "ops/moe_maps/problem.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace octet {
namespace {

constexpr std::int32_t kNone = -1;

class MapWriter {
 public:
  MapWriter(const MoeMapsProblem& problem, const MoeMapsArgs& args)
      : problem_(problem), args_(args) {
    status_.top_k = static_cast<std::int32_t>(problem.top_k);
    status_.experts = problem.experts;
    status_.rows = static_cast<std::int32_t>(problem.rows);
  }

  void write() {
    for_each_slot([&](std::int32_t slot, std::int64_t expert) {
      note_bad_index(slot, expert);
      if (is_here(expert)) ++size_of(expert);
    });
    write_sizes();
    auto* source = static_cast<std::int32_t*>(args_.source.data);
    std::fill_n(source, problem_.rows, kNone);
    auto* row_of = static_cast<std::int32_t*>(args_.row_of.data);
    for_each_slot([&](std::int32_t slot, std::int64_t expert) {
      const std::int32_t row = is_here(expert) ? take_row(expert) : kNone;
      row_of[slot / problem_.top_k * args_.row_of.strides[0] + slot % problem_.top_k] = row;
      if (row != kNone) source[row] = slot;
    });
    std::memcpy(args_.status.data, &status_, sizeof(status_));
  }

 private:
  // Calls visit(slot, index) in the order of the slots.
  template <class Visit>
  void for_each_slot(const Visit& visit) const {
    std::int32_t slot = 0;
    for (std::int64_t token = 0; token < problem_.tokens; ++token) {
      const std::int64_t first = token * args_.indices.strides[0];
      for (std::int64_t k = 0; k < problem_.top_k; ++k) {
        visit(slot++, problem_.indices_dtype == Dtype::i32
                          ? static_cast<const std::int32_t*>(args_.indices.data)[first + k]
                          : static_cast<const std::int64_t*>(args_.indices.data)[first + k]);
      }
    }
  }

  bool is_here(std::int64_t expert) const {
    return expert >= problem_.first_expert && expert < problem_.first_expert + problem_.groups;
  }
  std::int64_t& size_of(std::int64_t expert) {
    return sizes_[static_cast<std::size_t>(expert - problem_.first_expert)];
  }

  void note_bad_index(std::int32_t slot, std::int64_t expert) {
    if (expert >= -1 && expert < problem_.experts) return;
    if (status_.bad_indices++ > 0) return;
    status_.bad_index = expert;
    status_.bad_slot = slot;
  }

  // The rows that every expert gets, from the slots that it was chosen by.
  void write_sizes() {
    auto* sizes = static_cast<std::int32_t*>(args_.sizes.data);
    std::int64_t begin = 0;
    for (std::int64_t group = 0; group < problem_.groups; ++group) {
      const auto at = static_cast<std::size_t>(group);
      const std::int64_t wanted = sizes_[at];
      const std::int64_t kept =
          problem_.capacity > 0 ? std::min(wanted, problem_.capacity) : wanted;
      const std::int64_t size = std::min(kept, problem_.rows - begin);
      status_.dropped += static_cast<std::int32_t>(wanted - kept);
      status_.cut += static_cast<std::int32_t>(kept - size);
      next_row_[at] = begin;
      begin += size;
      end_row_[at] = begin;
      sizes[group] = static_cast<std::int32_t>(size);
    }
  }

  std::int32_t take_row(std::int64_t expert) {
    const auto group = static_cast<std::size_t>(expert - problem_.first_expert);
    if (next_row_[group] == end_row_[group]) return kNone;
    return static_cast<std::int32_t>(next_row_[group]++);
  }

  const MoeMapsProblem& problem_;
  const MoeMapsArgs& args_;
  MoeMapsStatus status_;
  std::array<std::int64_t, kMaxGroups> sizes_{};
  std::array<std::int64_t, kMaxGroups> next_row_{};
  std::array<std::int64_t, kMaxGroups> end_row_{};
};

void run_reference(const MoeMapsProblem& problem, const MoeMapsArgs& args,
                   const RunContext& context) {
  MapWriter(problem, args).write();
  const GroupTableProblem table{.groups = problem.groups, .rows = problem.rows};
  write_group_table(table, {args.sizes, args.table}, context);
}

}  // namespace

constinit const MoeMapsImplementation kMoeMapsCpuReference =
    cpu_reference<MoeMapsProblem, MoeMapsArgs, run_reference>();

}  // namespace octet
