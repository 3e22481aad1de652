#include "ops/group_table/problem.hpp"

#include <octet/buffer.hpp>

#include <array>
#include <cstring>

namespace octet {
namespace {

constexpr std::string_view kOp = "group_table";

std::string_view name(GroupSizes given) {
  switch (given) {
    case GroupSizes::sizes: return "sizes";
    case GroupSizes::ends: return "ends";
    case GroupSizes::offsets: return "offsets";
  }
  return "unknown sizes";
}

std::int64_t sizes_length(const GroupTableProblem& problem) {
  return problem.groups + (problem.given == GroupSizes::offsets ? 1 : 0);
}

TensorForm table_form(std::int64_t groups, std::int64_t rows) {
  return {
      Dtype::i32, {GroupTableLayout{groups, rows}.words()}, "[group_table_words(groups, rows)]"};
}

void check_table_address(std::string_view op, const TensorView& table) {
  if (reinterpret_cast<std::uintptr_t>(table.data) % 16 != 0) {
    refuse_argument(op, ": table must start on a 16-byte boundary, got address ", table.data);
  }
}

// The number that was clamped first, in a sentence.
std::string error_of(const GroupTableHead& head) {
  const std::int64_t group = head.error_group;
  const bool offsets = head.given == GroupSizes::offsets;
  const std::string which = head.given == GroupSizes::sizes ? text("the size of group ", group)
                            : offsets                       ? text("offset ", group + 1)
                                                            : text("the end of group ", group);
  switch (head.error) {
    case GroupError::none: return "";
    case GroupError::negative: return text(which, " must be at least 0, got ", head.error_given);
    case GroupError::falls:
      return text(which, " must not be less than ",
                  group == 0 && !offsets ? "0"
                  : offsets              ? text("offset ", group)
                                         : text("the end of group ", group - 1),
                  ", got ", head.error_given);
    case GroupError::beyond_rows:
      return text("group ", group, " must end within the ", head.rows, " rows of the buffers, ",
                  which, " is ", head.error_given);
    case GroupError::start: return text("offset 0 must be 0, got ", head.error_given);
  }
  return "unknown error";
}

GroupTableHead read_head(std::string_view op, const TensorView& table, const void* words) {
  GroupTableHead head;
  std::memcpy(&head, words, sizeof(head));
  if (head.magic != kGroupTableMagic) {
    refuse_argument(op, ": table was not made by group_table, got ", describe(table));
  }
  return head;
}

}  // namespace

// One block, whatever the problem: compiled with and without CUDA.
constinit const GroupTableImplementation kGroupTableCudaSm90Block{
    "cuda_sm90_block",
    [](const GroupTableProblem& problem, const Machine& machine) {
      return refuse_off_hopper(problem.device, machine);
    },
    [](const GroupTableProblem& problem, const Machine&) {
      return planned<GroupTableArgs>(problem, "1024 threads", 0, launch_sm90_group_table);
    }};

std::span<const GroupTableImplementation> group_table_implementations() {
  static const std::array list{kGroupTableCudaSm90Block, kGroupTableCpuReference};
  return list;
}

std::string describe(const GroupTableProblem& problem) {
  return text("group_table --groups ", problem.groups, " --rows ", problem.rows, " --given ",
              name(problem.given), " --dtype ", name(problem.sizes_dtype), " --device ",
              name(problem.device));
}

std::int64_t group_table_words(std::int64_t groups, std::int64_t rows) {
  check_groups(kOp, groups, rows);
  return GroupTableLayout{groups, rows}.words();
}

std::int64_t max_token_blocks(std::int64_t groups, std::int64_t rows) {
  check_groups(kOp, groups, rows);
  return GroupTableLayout{groups, rows}.max_blocks();
}

void check_groups(std::string_view op, std::int64_t groups, std::int64_t rows) {
  if (groups < 1 || groups > kMaxGroups) {
    refuse_argument(op, ": groups must be 1 to ", kMaxGroups, ", got ", groups);
  }
  if (rows < 1 || rows > kMaxGroupedRows) {
    refuse_argument(op, ": rows must be 1 to 2^30, got ", rows);
  }
}

std::string_view name(GroupTail tail) {
  switch (tail) {
    case GroupTail::zero: return "zero";
    case GroupTail::untouched: return "untouched";
  }
  return "unknown tail";
}

void check_tail(std::string_view op, GroupTail tail) {
  if (tail != GroupTail::zero && tail != GroupTail::untouched) {
    refuse_argument(op, ": tail must be zero or untouched, got ", static_cast<std::int32_t>(tail));
  }
}

void read_table(Call& call, const TensorView& table, std::int64_t groups, std::int64_t rows) {
  call.reads("table", table, table_form(groups, rows));
  check_table_address(call.op(), table);
}

void write_table(Call& call, const TensorView& table, std::int64_t groups, std::int64_t rows) {
  call.writes("table", table, table_form(groups, rows));
  check_table_address(call.op(), table);
}

void check(const GroupTableProblem& problem) {
  check_groups(kOp, problem.groups, problem.rows);
  if (name(problem.given) == "unknown sizes") {
    refuse_argument(kOp, ": given must be sizes, ends or offsets, got ",
                    static_cast<std::int32_t>(problem.given));
  }
  if (problem.sizes_dtype != Dtype::i32 && problem.sizes_dtype != Dtype::i64) {
    refuse_argument(kOp, ": sizes_dtype must be i32 or i64, got ", name(problem.sizes_dtype));
  }
  check_device(kOp, problem.device);
}

void check(const GroupTableProblem& problem, const GroupTableArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  Call call(kOp, problem.device);
  const bool offsets = problem.given == GroupSizes::offsets;
  call.reads("sizes", args.sizes,
             TensorForm(problem.sizes_dtype, {sizes_length(problem)},
                        offsets ? "[groups + 1]" : "[groups]"));
  write_table(call, args.table, problem.groups, problem.rows);
  call.check_apart(workspace_bytes, workspace);
}

GroupTablePlan plan_group_table(const GroupTableProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(group_table_implementations(), problem,
                   make_request(kOp, "other", describe(problem), options.backend), options);
}

void run(const GroupTablePlan& plan, const GroupTableArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

GroupTableReport read_group_table(const TensorView& table, void* stream) {
  const std::int64_t words = sizeof(GroupTableHead) / sizeof(std::int32_t);
  if (table.data == nullptr || table.dtype != Dtype::i32 || table.rank != 1 ||
      table.shape[0] < words || table.strides[0] != 1) {
    refuse_argument(kOp, ": table must be i32[group_table_words(groups, rows)], got ",
                    describe(table));
  }
  std::array<std::int32_t, sizeof(GroupTableHead) / sizeof(std::int32_t)> host{};
  TensorView head = table;
  head.shape[0] = words;
  copy(head, make_view(host.data(), Dtype::i32, {words}), stream);
  const GroupTableHead found = read_head(kOp, table, host.data());
  return {found.groups, found.rows, found.grouped_rows, found.filled_groups, error_of(found)};
}

void check_group_table(const TensorView& table, void* stream) {
  const GroupTableReport report = read_group_table(table, stream);
  if (!report.error.empty()) refuse_argument(kOp, ": ", report.error);
}

GroupRows::GroupRows(std::string_view op, const TensorView& table, std::int64_t groups,
                     std::int64_t rows)
    : groups_(groups) {
  const GroupTableLayout layout{groups, rows};
  const auto* words = static_cast<const std::int32_t*>(table.data);
  first_row_ = words + layout.first_row();
  first_block_ = words + layout.first_block();
  const GroupTableHead head = read_head(op, table, words);
  bool sound = head.groups == groups && head.rows == rows && begin(0) == 0 && first_block(0) == 0;
  for (std::int64_t group = 0; sound && group < groups; ++group) {
    sound = begin(group) <= end(group) && end(group) <= rows &&
            blocks(group) == ceil_div(this->rows(group), kTokenBlock);
  }
  if (!sound) {
    refuse_argument(op, ": table is not one of ", groups, " groups in ", rows,
                    " rows; it was made for ", head.groups, " groups in ", head.rows, " rows");
  }
}

}  // namespace octet
