// Published rows against what the tree plans: other tiles or grids make a row stale as surely as other
// kernels do.
#include "results.hpp"

#include "tool/operators/operator.hpp"
#include "tool/options/timing_options.hpp"
#include "tool/results/command_line.hpp"

#include "device/pretended.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Operator> operator_called(const std::string& name) {
  for (const MakeOperator make : operators()) {
    std::unique_ptr<Operator> op = make();
    if (op->name() == name) return op;
  }
  return nullptr;
}

// The workload of a command, "octet bench gemm --shape ...", which names one case.
std::unique_ptr<bench::Workload> planned(const std::string& command) {
  const std::string name = operator_of(command);
  const std::unique_ptr<Operator> op = operator_called(name);
  if (op == nullptr) return nullptr;
  CLI::App app;
  TimingOptions timing;
  op->add_options(app, true);
  add_timing_options(app, timing);
  op->add_bench_options(app);
  app.parse(command.substr(command.find(name) + name.size()), false);
  const std::vector<Case> cases = op->chosen_cases();
  return cases.size() == 1 ? cases[0].workload(op->data_options()) : nullptr;
}

TEST(PublishedResults, HaveTheConfigurationsThatArePlannedForAnH200) {
  const cuda::Pretend h200(cuda::kH200);
  std::size_t rows = 0;
  for (const auto& file : fs::directory_iterator(OCTET_SOURCE_DIR "/results/h200")) {
    for (const Fields& record : read_results(file.path().string()).records) {
      if (!record.contains("Configuration")) continue;  // of tools/peers.py, which plans none
      const std::string& command = record.at("Command");
      const std::unique_ptr<bench::Workload> workload = planned(command);
      ASSERT_NE(workload, nullptr) << command;
      EXPECT_EQ(workload->implementation(), record.at("Backend")) << command;
      EXPECT_EQ(workload->configuration(), record.at("Configuration")) << command;
      ++rows;
    }
  }
  EXPECT_GT(rows, 200u) << "in " OCTET_SOURCE_DIR "/results/h200";
}

}  // namespace
}  // namespace octet::tool
