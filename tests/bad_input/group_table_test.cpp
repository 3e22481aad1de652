// What group_table refuses, through C++ and C.
#include "bad_input/both_apis.hpp"

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;

void refused(const std::string& message, const auto& change) {
  GroupTableProblem problem{.groups = 3, .rows = 500};
  change(problem);
  expect_plan_refused(kInvalid, message, problem);
}

TEST(GroupTableBadInput, RefusesBadProblems) {
  refused("group_table: groups must be 1 to 1024, got 0", [](auto& p) { p.groups = 0; });
  refused("group_table: groups must be 1 to 1024, got 1025", [](auto& p) { p.groups = 1025; });
  refused("group_table: rows must be 1 to 2^30, got 0", [](auto& p) { p.rows = 0; });
  refused("group_table: rows must be 1 to 2^30, got 1073741825",
          [](auto& p) { p.rows = kMaxGroupedRows + 1; });
  refused("group_table: given must be sizes, ends or offsets, got 7",
          [](auto& p) { p.given = static_cast<GroupSizes>(7); });
  refused("group_table: sizes_dtype must be i32 or i64, got f32",
          [](auto& p) { p.sizes_dtype = Dtype::f32; });
}

struct TableCall {
  explicit TableCall(GroupSizes given = GroupSizes::sizes) {
    problem.given = given;
    args.sizes = arena.tensor(Dtype::i32, {given == GroupSizes::offsets ? 4 : 3});
    args.table = arena.tensor(Dtype::i32, {group_table_words(3, 500)});
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, problem, args, {});
  }

  Arena arena{1 << 12};
  GroupTableProblem problem{.groups = 3, .rows = 500};
  GroupTableArgs args;
};

TEST(GroupTableBadInput, RefusesBadTensors) {
  TableCall fewer;
  fewer.args.sizes.shape[0] = 2;
  fewer.refused("group_table: sizes must be [groups] = [3], got [2]");
  TableCall offsets(GroupSizes::offsets);
  offsets.args.sizes.shape[0] = 3;
  offsets.refused("group_table: sizes must be [groups + 1] = [4], got [3]");
  TableCall wide;
  wide.args.sizes.dtype = Dtype::i64;
  wide.refused("group_table: sizes must be i32, got i64");
  TableCall shorter;
  shorter.args.table.shape[0] = 83;
  shorter.refused("group_table: table must be [group_table_words(groups, rows)] = [84], got [83]");
  TableCall device;
  device.args.sizes.device = {DeviceType::cuda, 0};
  device.refused("group_table: sizes is on cuda:0, the problem is on cpu");
  TableCall overlap;
  overlap.args.sizes.data = overlap.args.table.data;
  overlap.refused("group_table: output table overlaps sizes: their memory must be apart");
}

TEST(GroupTableBadInput, RefusesTablesThatWereNeverMade) {
  TableCall call;
  octet_tensor table = to_c(call.args.table);
  expect_status(kInvalid, "group_table: table was not made by group_table, got i32[84]",
                octet_check_group_table(&table, nullptr));
  table.dtype = OCTET_F32;
  expect_status(kInvalid,
                "group_table: table must be i32[group_table_words(groups, rows)], got f32[84]",
                octet_check_group_table(&table, nullptr));
  expect_status(kInvalid, "group_table: table is a null pointer",
                octet_check_group_table(nullptr, nullptr));
  std::int64_t words = 0;
  expect_status(kInvalid, "group_table: groups must be 1 to 1024, got -1",
                octet_group_table_words(-1, 500, &words));
  EXPECT_EQ(octet_group_table_words(3, 500, &words), OCTET_OK);
  EXPECT_EQ(words, 84);
}

}  // namespace
}  // namespace octet::bad_input
