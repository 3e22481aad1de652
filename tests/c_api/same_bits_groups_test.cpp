// The C API gives the bits of the C++ API, for operators over groups.
#include "c_api/same_bits.hpp"

#include <cstring>

namespace octet {
namespace {

TEST(CApiGroups, TablesHaveTheSameBits) {
  for (const GroupSizes given : {GroupSizes::sizes, GroupSizes::ends, GroupSizes::offsets}) {
    const GroupTableProblem problem{3, 500, given};
    expect_same_bits(problem, [&](Arena& arena) {
      const std::int32_t numbers[4] = {0, 100, 300, 450};
      GroupTableArgs args;
      args.sizes = arena.tensor(Dtype::i32, {given == GroupSizes::offsets ? 4 : 3});
      std::memcpy(args.sizes.data, numbers, static_cast<std::size_t>(args.sizes.shape[0]) * 4);
      args.table = arena.tensor(Dtype::i32, {group_table_words(3, 500)});
      return args;
    });
  }
}

}  // namespace
}  // namespace octet
