// Good and bad calls from many threads at once: each thread reads its own error, and good calls
// give the same bits as in a single thread.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace octet::bad_input {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 20;

GemmProblem small_problem() {
  GemmProblem problem{.m = 17, .n = 33, .k = 150};
  problem.a = problem.b = {Dtype::f32};
  problem.out_dtype = Dtype::f32;
  return problem;
}

// The operands, shared by all threads.
struct Operands {
  Tensor a{Dtype::f32, {17, 150}};
  Tensor b{Dtype::f32, {33, 150}};

  Operands() {
    for (int i = 0; i < 17 * 150; ++i) static_cast<float*>(a.data())[i] = 0.5f + i % 19;
    for (int i = 0; i < 33 * 150; ++i) static_cast<float*>(b.data())[i] = 1.5f - i % 13;
  }
};

std::vector<float> multiply(const octet_plan* plan, const Operands& operands) {
  std::vector<float> d(17 * 33, -1);
  Buffer workspace(octet_plan_workspace_bytes(plan));
  const octet_gemm_args args =
      to_c(GemmArgs{operands.a.view(), operands.b.view(),
                    make_view(static_cast<void*>(d.data()), Dtype::f32, {17, 33})});
  EXPECT_EQ(octet_run_gemm(plan, &args, workspace.data(), workspace.bytes(), nullptr), OCTET_OK)
      << octet_last_error();
  return d;
}

TEST(BadInputThreads, EveryThreadReadsItsOwnErrorAndItsOwnResult) {
  const Operands operands;
  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(small_problem(), &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  const std::vector<float> alone = multiply(plan.get(), operands);

  std::atomic<int> wrong_errors{0};
  std::atomic<int> wrong_results{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      GemmProblem bad = small_problem();
      bad.m = -t;
      const std::string wanted = text("gemm: M must be at least 1, got ", -t);
      for (int round = 0; round < kRounds; ++round) {
        octet_plan* none = nullptr;
        const octet_status status = c_plan(bad, &none);
        if (multiply(plan.get(), operands) != alone) ++wrong_results;
        if (status != OCTET_INVALID_ARGUMENT || wanted != octet_last_error()) ++wrong_errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_errors.load(), 0);
  EXPECT_EQ(wrong_results.load(), 0);
}

TEST(BadInputThreads, AThreadWithoutErrorsHasNone) {
  octet_plan* plan = nullptr;
  GemmProblem bad = small_problem();
  bad.k = 0;
  ASSERT_EQ(c_plan(bad, &plan), OCTET_INVALID_ARGUMENT);
  std::string other = "not asked";
  std::thread([&] { other = octet_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STREQ(octet_last_error(), "gemm: K must be at least 1, got 0");
}

}  // namespace
}  // namespace octet::bad_input
