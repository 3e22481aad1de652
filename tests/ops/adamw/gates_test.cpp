// adamw passes the gates in every dtype, and every gate is applied to every output.
#include "ops/adamw/case.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

namespace octet::testing {
namespace {

TEST(AdamWGates, PassInEveryDtype) {
  for (const std::int64_t count : {33, 2 * 4096}) {
    for_every_problem(count, [](const AdamWProblem& problem) {
      expect_pass(check_adamw(problem, {}), describe(problem));
    });
  }
}

TEST(AdamWGates, JudgeEveryOutput) {
  AdamWProblem problem{.count = 4096};
  problem.master = true;
  for (const char* gate : {"E1", "E2", "G5", "G6"}) {
    std::string tensors;
    for (const GateResult& one : check_adamw(problem, {}).results) {
      if (one.gate == gate) tensors += one.tensor + " ";
    }
    EXPECT_EQ(tensors, "w master m v ") << gate;
  }
}

TEST(AdamWGates, JudgeTheFp8Output) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>(33, 130), {256, 128}}) {
    const AdamWProblem problem = matrix_problem(rows, cols, 0);
    const GateReport report = check_adamw(problem, {});
    expect_pass(report, describe(problem));
    std::string tensors;
    for (const GateResult& one : report.results) {
      if (one.gate == "Q") tensors += one.tensor + " ";
    }
    EXPECT_EQ(tensors, "w.fp8.out w.fp8.transposed ");
  }
}

TEST(AdamWCuda, PassesTheGatesOnALayer) {
  OCTET_NEEDS_HOPPER();
  for (const bool master : {false, true}) {
    AdamWProblem problem{.count = std::int64_t{28672} * 4096 + 3};
    problem.count -= master ? 3 : 0;
    problem.master = master;
    problem.device = OnCuda::kDevice;
    expect_pass(check_adamw(problem, {}), describe(problem));
  }
}

}  // namespace
}  // namespace octet::testing
