// The table of the Hopper kernel is that of the reference in every word, whatever the sizes;
// nothing outside it is written; and a graph sees new sizes.
#include "ops/group_table/case.hpp"
#include "support/cuda_stream.hpp"
#include "support/on_cuda.hpp"

#include <cstring>

namespace octet::testing {
namespace {

constexpr std::int64_t kGuard = 64;  // words on both sides of a table

// The words of the table with their guards, which begin as a pattern.
std::vector<std::int32_t> words_of(const GroupTableProblem& on_cpu, const Numbers& numbers,
                                   Device device) {
  GroupTableProblem problem = on_cpu;
  problem.device = device;
  const std::int64_t length = group_table_words(problem.groups, problem.rows);
  std::vector<std::int32_t> words(static_cast<std::size_t>(length + 2 * kGuard), 0x5A5A5A5A);
  const TensorView whole = make_view(words.data(), Dtype::i32, {std::ssize(words)});
  const Tensor sizes = tensor_of(numbers, problem.sizes_dtype);
  OnCuda copies;
  const bool there = device.type == DeviceType::cuda;
  const TensorView image = there ? copies.copy_in(whole) : whole;
  TensorView table = image;
  table.data = static_cast<std::int32_t*>(image.data) + kGuard;
  table.shape[0] = length;
  run(plan_group_table(problem), {there ? copies.copy_in(sizes.view()) : sizes.view(), table});
  if (there) {
    cuda::synchronize(0);
    OnCuda::copy_out(image, whole);
  }
  return words;
}

void expect_same_table(const GroupTableProblem& problem, const Numbers& numbers) {
  const auto wanted = words_of(problem, numbers, Device{});
  const auto given = words_of(problem, numbers, OnCuda::kDevice);
  ASSERT_EQ(given.size(), wanted.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_EQ(given[i], wanted[i])
        << "word " << static_cast<std::int64_t>(i) - kGuard << " of " << describe(problem)
        << " from " << ::testing::PrintToString(numbers);
  }
}

TEST(GroupTableCuda, IsTheTableOfTheReference) {
  OCTET_NEEDS_HOPPER();
  for (const Case& given : cases()) {
    const auto groups = static_cast<std::int64_t>(given.sizes.size());
    for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
      expect_same_table({groups, given.rows, GroupSizes::sizes, dtype}, given.sizes);
      expect_same_table({groups, given.rows, GroupSizes::ends, dtype}, ends_of(given.sizes));
      expect_same_table({groups, given.rows, GroupSizes::offsets, dtype}, offsets_of(given.sizes));
    }
  }
}

TEST(GroupTableCuda, ClampsLikeTheReference) {
  OCTET_NEEDS_HOPPER();
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 5000);
    const auto groups = static_cast<std::int64_t>(1 + random() % (i % 10 == 0 ? 1024 : 40));
    const auto count = static_cast<std::size_t>(groups);
    expect_same_table({groups, rows, GroupSizes::sizes, Dtype::i64},
                      wild_numbers(count, rows, random));
    expect_same_table({groups, rows, GroupSizes::ends, Dtype::i32},
                      wild_numbers(count, rows, random));
    expect_same_table({groups, rows, GroupSizes::offsets, Dtype::i64},
                      wild_numbers(count + 1, rows, random));
  }
}

TEST(GroupTableCuda, TakesEveryNumberOfGroups) {
  OCTET_NEEDS_HOPPER();
  std::mt19937_64 random(8);
  for (const std::int64_t groups : {1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 511, 513, 1023, 1024}) {
    Numbers sizes(static_cast<std::size_t>(groups));
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(random() % 300);
    expect_same_table({groups, 150 * groups}, sizes);
    expect_same_table({groups, 400 * groups}, sizes);
  }
}

TEST(GroupTableCuda, GraphSeesNewSizes) {
  OCTET_NEEDS_HOPPER();
  const GroupTableProblem problem{3, 1000, GroupSizes::sizes, Dtype::i32, OnCuda::kDevice};
  const Tensor sizes(Dtype::i32, {3}, OnCuda::kDevice);
  const Tensor table(Dtype::i32, {group_table_words(3, 1000)}, OnCuda::kDevice);
  const GroupTablePlan plan = plan_group_table(problem);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) { run(plan, {sizes, table}, {}, handle); });
  for (const std::vector<std::int32_t>& now :
       {std::vector{100, 0, 200}, {0, 1000, 0}, {-1, 5, 995}}) {
    cuda::copy(sizes.data(), now.data(), 12, 0);
    graph.launch(stream);
    stream.synchronize();
    const GroupTableReport report = read_group_table(table);
    EXPECT_EQ(report.grouped_rows, std::max(now[0], 0) + now[1] + now[2]);
    EXPECT_EQ(report.error,
              now[0] < 0 ? "the size of group 0 must be at least 0, got -1" : std::string());
  }
}

}  // namespace
}  // namespace octet::testing
