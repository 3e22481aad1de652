// The plan of a grouped product: its text, its choice, its memory, and tables that do not fit.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/case.hpp"
#include "support/refusal.hpp"

namespace octet::testing {
namespace {

TEST(GroupedGemm, DescribesItsProblem) {
  GroupedGemmProblem problem{.groups = 5, .rows = 385, .n = 256, .k = 384};
  EXPECT_EQ(describe(problem),
            "grouped-gemm --over rows --groups 5 --shape 385x256x384 --a e4m3:1x128 --b "
            "e4m3:128x128 --out bf16 --device cpu");
  problem.tail = GroupTail::untouched;
  problem.expected_rows = 300;
  problem.max_multiprocessors = 100;
  EXPECT_EQ(describe(problem),
            "grouped-gemm --over rows --groups 5 --shape 385x256x384 --a e4m3:1x128 --b "
            "e4m3:128x128 --out bf16 --tail untouched --expected-rows 300 --max-multiprocessors "
            "100 --device cpu");
  problem = {.over = GroupedOver::contraction, .groups = 5, .rows = 385, .n = 256, .k = 384};
  problem.a = problem.b = {Dtype::bf16, {}, Major::mn};
  problem.out_dtype = Dtype::f32;
  problem.accumulate = true;
  EXPECT_EQ(describe(problem),
            "grouped-gemm --over contraction --groups 5 --shape 385x256x384 --a bf16:mn --b "
            "bf16:mn --out f32 --accumulate --device cpu");
}

TEST(GroupedGemm, MemoryIsBoundedWhateverTheProblem) {
  std::mt19937_64 random(5);
  const auto extent = [&](std::uint64_t largest) {
    return 1 + static_cast<std::int64_t>(random() % largest);
  };
  for (int i = 0; i < 1000; ++i) {
    GroupedGemmProblem problem;
    problem.over = i % 2 ? GroupedOver::rows : GroupedOver::contraction;
    problem.groups = extent(kMaxGroups);
    problem.rows = extent(i % 3 ? 1000 : 1 << 20);
    problem.n = extent(i % 5 ? 300 : 1 << 20);
    problem.k = extent(i % 7 ? 300 : 1 << 20);
    for (const GemmKernels* kernels : {&gemm_kernels_avx2()[0], &gemm_kernels_avx512()[0]}) {
      EXPECT_LE(gemm_chunks(product_bounds(problem), *kernels).bytes(), std::size_t{26} << 20)
          << describe(problem);
    }
  }
}

TEST(GroupedGemm, TakesAsManyGroupsAsATableHas) {
  Sizes sizes(kMaxGroups, 0);
  for (std::size_t i = 0; i < sizes.size(); i += 3) sizes[i] = 1 + static_cast<std::int64_t>(i % 2);
  for (const GroupedPairing& pairing : grouped_pairings()) {
    const GroupedCase grouped(pairing.problem(600, 9, 20), sizes, Numbers::integers, 1);
    const GuardedMatrix wanted = grouped.output(0);
    run(plan_grouped_gemm(grouped.problem, {"cpu_reference", 0}), grouped.with_output(wanted));
    for (const GroupedRunner& runner : grouped_runners()) {
      const GuardedMatrix given = grouped.output(0);
      runner.run(grouped.problem, grouped.with_output(given), 2);
      EXPECT_EQ(std::memcmp(given.view().data, wanted.view().data,
                            static_cast<std::size_t>(wanted.view().rows() * wanted.view().cols() *
                                                     size_bytes(wanted.view().dtype))),
                0)
          << runner.dense.name << ": " << pairing.name;
    }
  }
}

TEST(GroupedGemm, RefusesTablesOfOtherBuffersAndWritesNothing) {
  for (const char* backend : {"cpu_simd", "cpu_reference"}) {
    GroupedCase grouped(grouped_pairings()[0].problem(300, 20, 40), {100, 150}, Numbers::integers,
                        1);
    const GroupedGemmPlan plan = plan_grouped_gemm(grouped.problem, {backend, 0});
    const GuardedMatrix d = grouped.output(0);
    const GroupedGemmArgs args = grouped.with_output(d);
    auto* words = static_cast<std::int32_t*>(args.table.data);
    const auto refused = [&](const std::string& message) {
      EXPECT_EQ(run_refusal(plan, args), message);
      EXPECT_EQ(d.inspect().unwritten, 300 * 20);
    };
    const std::int32_t rows = words[2];
    words[2] = 301;
    refused(
        "grouped_gemm: table is not one of 2 groups in 300 rows; it was made for 2 groups in 301 "
        "rows");
    words[2] = rows;
    words[17] = 400;  // the end of group 0
    refused(
        "grouped_gemm: table is not one of 2 groups in 300 rows; it was made for 2 groups in 300 "
        "rows");
    words[0] = 0;
    refused("grouped_gemm: table was not made by group_table, got i32[" +
            std::to_string(args.table.shape[0]) + "]");
  }
}

}  // namespace
}  // namespace octet::testing
