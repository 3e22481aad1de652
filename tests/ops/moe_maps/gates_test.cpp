// moe_maps passes the gates, whose maps come from a stable sort; wrong integers fail them.
#include "check/data/expert_maps.hpp"
#include "check/judge/written_twice.hpp"
#include "support/gates.hpp"

#include <cstring>

namespace octet {
namespace {

TEST(MoeMapsGates, PassInEveryForm) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    for (const Distribution distribution : {Distribution::normal, Distribution::skewed}) {
      for (const std::int64_t rows : {400, 150}) {
        MoeMapsProblem problem{.tokens = 100, .top_k = 3, .experts = 20, .groups = 20};
        problem.rows = rows;
        problem.indices_dtype = dtype;
        DataOptions options;
        options.distribution = distribution;
        expect_pass(check_moe_maps(problem, options), describe(problem));
        problem.first_expert = 7;
        problem.groups = 5;
        problem.capacity = 13;
        expect_pass(check_moe_maps(problem, options), describe(problem));
      }
    }
  }
}

TEST(IntegersTwice, SeesAWrongIntegerAnUnwrittenOneAndAWriteOutside) {
  const std::vector<std::int32_t> wanted{-1, 5, 7, -1, 0, 2};
  const auto judged = [&](const auto& spoil) {
    const IntegersTwice integers(2, 3, 4, kCpu);
    for (int call = 0; call < 2; ++call) {
      for (std::int64_t row = 0; row < 2; ++row) {
        const TensorView view = integers.view(call);
        std::memcpy(static_cast<std::int32_t*>(view.data) + row * view.strides[0],
                    wanted.data() + row * 3, 3 * sizeof(std::int32_t));
      }
    }
    spoil(integers);
    GateReport report;
    integers.judge("row_of", wanted, report);
    return report;
  };
  const auto word = [](const IntegersTwice& integers, int call, std::int64_t index) {
    return static_cast<std::int32_t*>(integers.view(call).data) + index;
  };
  EXPECT_TRUE(judged([](const auto&) {}).pass());
  const GateReport wrong = judged([&](const auto& all) { *word(all, 0, 1) = 6; });
  EXPECT_FALSE(wrong.pass());
  EXPECT_EQ(wrong.results[0].value, "row 0, column 1: 6 instead of 5");
  EXPECT_FALSE(judged([&](const auto& all) { *word(all, 1, 8) = 1; }).pass()) << "the second call";
  EXPECT_FALSE(judged([&](const auto& all) { *word(all, 1, 4) = 1; }).pass()) << "a gap";
  EXPECT_FALSE(judged([&](const auto& all) { *word(all, 0, -1) = 1; }).pass()) << "before";
}

}  // namespace
}  // namespace octet
