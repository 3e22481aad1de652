// Files of tasks: what they mean, and at which line and column an error is reported.
#include "tool/cases/cases.hpp"
#include "tool/suite/tasks.hpp"
#include "tool/options/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace octet::tool {
namespace {

TEST(Tasks, OptionsAreThoseOfACommandLine) {
  const auto groups = parse_tasks(
      "groups:\n"
      "  g:\n"
      "    about: some\n"
      "    tasks:\n"
      "      - label: a-1_B\n"
      "        op: gemm\n"
      "        shards: 3\n"
      "        options:\n"
      "          shape: [1x2x3, 4x5x6]\n"
      "          iters: 7\n"
      "          prequantized: true\n"
      "          accumulate-dw: false\n",
      "t.yaml");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].about, "some");
  ASSERT_EQ(groups[0].tasks.size(), 1u);
  const Task& task = groups[0].tasks[0];
  EXPECT_EQ(task.label, "a-1_B");
  EXPECT_EQ(task.shards, 3);
  EXPECT_EQ(task.place, "t.yaml:5:9");
  EXPECT_EQ(task.arguments, (std::vector<std::string>{"--shape=1x2x3", "--shape=4x5x6", "--iters=7",
                                                      "--prequantized"}));
}

TEST(Tasks, GroupsComeInTheOrderOfTheFile) {
  const auto groups = parse_tasks(
      "groups: {x: {tasks: [{label: a, op: gemm}]}, y: {tasks: [{label: b, op: gemm}]}}", "t.yaml");
  EXPECT_EQ(tasks_of(groups, {}).size(), 2u);
  const auto both = tasks_of(groups, {"y", "x", "y"});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].label, "a");
  EXPECT_EQ(tasks_of(groups, {"y"}).at(0).label, "b");
}

TEST(Tasks, TheFileThatShipsHasItsGroups) {
  const auto groups = parse_tasks(std::string(embedded_case_file("tasks.yaml")), "tasks.yaml");
  for (const char* name : {"quick", "dense84", "quantize", "memory", "mlp", "attention"}) {
    EXPECT_FALSE(tasks_of(groups, {name}).empty()) << name;
  }
}

// The groups that octet compare --across reads: one task for each granularity and backend.
TEST(Tasks, LayersHaveATaskForEachGranularityAndBackend) {
  const auto groups = parse_tasks(std::string(embedded_case_file("tasks.yaml")), "tasks.yaml");
  const auto has_task = [](const std::vector<Task>& tasks,
                           const std::vector<std::string>& arguments) {
    return std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) {
      return task.op == "gemm" &&
             std::all_of(arguments.begin(), arguments.end(), [&](const auto& one) {
               return std::find(task.arguments.begin(), task.arguments.end(), one) !=
                      task.arguments.end();
             });
    });
  };
  const auto fp8 = tasks_of(groups, {"gemm_fp8"});
  const auto bf16 = tasks_of(groups, {"gemm_bf16"});
  for (const char* backend : {"--backend=cuda_sm90_wgmma", "--backend=cublaslt"}) {
    EXPECT_TRUE(has_task(bf16, {"--suite=dense84", "--dtype=bf16", backend})) << backend;
    for (const char* granularity : {"tensorwise", "rowwise", "mxfp8"}) {
      EXPECT_TRUE(has_task(fp8, {"--suite=dense84", "--dtype=fp8",
                                 std::string("--granularity=") + granularity, backend}))
          << granularity << " " << backend;
    }
    for (const char* blocks : {"--wgrad-blocks=1d", "--wgrad-blocks=2d"}) {
      EXPECT_TRUE(has_task(fp8, {"--suite=dense84", "--granularity=blockwise", blocks, backend}))
          << blocks << " " << backend;
    }
  }
  EXPECT_EQ(fp8.size(), 10u);
  EXPECT_EQ(bf16.size(), 2u);
}

TEST(Tasks, ATextWithNulsIsReadToItsEnd) {
  const std::string text("# a comment\0\0and more\0# of it", 29);
  EXPECT_THROW(parse_tasks(text, "t.yaml"), UsageError);
}

struct Wrong {
  const char* name;
  const char* text;
  const char* message;
};

class TasksRefuse : public testing::TestWithParam<Wrong> {};

TEST_P(TasksRefuse, ByLineAndColumn) {
  try {
    parse_tasks(GetParam().text, "t.yaml");
    FAIL() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , TasksRefuse,
    testing::Values(
        Wrong{"NotYaml", "groups: {a: [", "t.yaml:1:14: not YAML: end of sequence flow not found"},
        Wrong{"BadIndentation", "groups:\n  a:\n tasks: 1\n",
              "t.yaml:3:2: not YAML: end of map not found"},
        Wrong{"TwoDocuments", "groups: {g: {tasks: [{label: a, op: b}]}}\n---\ngroups: {}\n",
              "t.yaml:2:1: a second document begins here, wanted one"},
        Wrong{"Empty", "", "t.yaml: the file must be a map"},
        Wrong{"AList", "- a\n", "t.yaml:1:1: the file must be a map"},
        Wrong{"SuitesOfCases", "suites: {}\n",
              "t.yaml:1:1: the file has the unknown key \"suites\"; there are: groups"},
        Wrong{"NoGroups", "groups: {}\n", "t.yaml:1:1: there are no groups"},
        Wrong{"GroupWithoutTasks", "groups:\n  g:\n    about: x\n",
              "t.yaml:3:5: group g has no tasks"},
        Wrong{"GroupTwice", "groups: {g: {tasks: [{label: a, op: b}]}, g: {}}",
              "t.yaml:1:43: groups has \"g\" twice"},
        Wrong{"UnknownKey", "groups:\n  g:\n    tasks:\n      - label: a\n        opp: gemm\n",
              "t.yaml:5:9: a task has the unknown key \"opp\"; there are: label, op, options, "
              "shards"},
        Wrong{"NoLabel", "groups: {g: {tasks: [{op: gemm}]}}",
              "t.yaml:1:22: a task must have a label"},
        Wrong{"NoOp", "groups: {g: {tasks: [{label: a}]}}", "t.yaml:1:22: task a must have an op"},
        Wrong{"LabelOfAnotherFolder", "groups: {g: {tasks: [{label: ../a, op: gemm}]}}",
              "t.yaml:1:30: label must be at most 100 letters, digits, _ and -, got \"../a\""},
        Wrong{"LabelTwice",
              "groups:\n  g:\n    tasks:\n      - {label: a, op: b}\n  h:\n    tasks:\n      - "
              "{label: a, op: c}\n",
              "t.yaml:7:9: the label a is taken by the task at t.yaml:4:9"},
        Wrong{"NoShards", "groups: {g: {tasks: [{label: a, op: b, shards: 0}]}}",
              "t.yaml:1:48: shards must be a whole number between 1 and 1000"},
        Wrong{"OptionOfTheSuite",
              "groups: {g: {tasks: [{label: a, op: b, options: {device: cpu}}]}}",
              "t.yaml:1:50: option device cannot be given: the suite gives it itself"},
        Wrong{"OptionWithDashes", "groups: {g: {tasks: [{label: a, op: b, options: {--m: 1}}]}}",
              "t.yaml:1:50: \"--m\": wanted the name of an option without dashes"},
        Wrong{"OptionWithoutValue", "groups: {g: {tasks: [{label: a, op: b, options: {m: }}]}}",
              "t.yaml:1:53: option m: a text, a list of them, true or false must be a text"}),
    [](const testing::TestParamInfo<Wrong>& wrong) { return std::string(wrong.param.name); });

}  // namespace
}  // namespace octet::tool
