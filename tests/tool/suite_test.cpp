// octet bench suite, end to end on the CPU: what it writes, what it prints, how it continues.
#include "background_tool.hpp"
#include "results.hpp"

#include <algorithm>
#include <set>

namespace octet::tool {
namespace {

// Eight cases in two shards. Each case takes a fifth of a second, so that there is time to kill it.
const char* const kSlow =
    "groups:\n"
    "  g:\n"
    "    tasks:\n"
    "      - label: slow\n"
    "        op: gemm\n"
    "        shards: 2\n"
    "        options:\n"
    "          shape: [8x16x31, 8x16x32, 8x16x33, 8x16x34, 8x16x35, 8x16x36, 8x16x37, 8x16x38]\n"
    "          warmup: 1\n"
    "          iters: 100000000\n"
    "          seconds-per-case: 0.2\n";

const char* const kBrief =
    "groups:\n"
    "  products:\n"
    "    tasks:\n"
    "      - label: layers\n"
    "        op: gemm\n"
    "        shards: 2\n"
    "        options: {shape: [8x16x32, 9x17x33, 10x18x34], warmup: 1, iters: 3}\n"
    "  casts:\n"
    "    tasks:\n"
    "      - {label: casts, op: quantize, options: {shape: 8x16, warmup: 1, iters: 5}}\n";

class ToolSuite : public testing::Test {
 protected:
  std::string tasks(const std::string& text) const {
    std::ofstream(folder_.file("tasks.yaml")) << text;
    return folder_.file("tasks.yaml");
  }
  std::string out(const std::string& name = "") const { return folder_.file("out/" + name); }
  Outcome run(const std::string& text, const std::string& more = "") const {
    return run_tool("bench suite " + tasks(text) + " -n 0 -d " + out() + " " + more);
  }
  std::size_t rows_so_far() const {
    std::size_t lines = 0;
    for (const char* shard : {"shards/slow.0", "shards/slow.1"}) {
      for (const std::string suffix : {"", ".partial"}) {
        const std::string text = read_file(out(shard + suffix));
        const auto ends = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        lines += ends == 0 ? 0 : ends - 1;
      }
    }
    return lines;
  }
  std::vector<std::string> background_arguments() const {
    return {"bench", "suite", tasks(kSlow), "-n", "0", "--cpu-slots", "2", "-d", out()};
  }

  Folder folder_;
};

void expect_test_ids(const Results& results, int count) {
  ASSERT_EQ(results.records.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(results.records[static_cast<std::size_t>(i)].at("TestID"), std::to_string(i + 1));
  }
}

TEST_F(ToolSuite, WritesTheRowsOfEveryTaskInOrder) {
  const Outcome outcome = run(kBrief);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "") << "no progress bar on a pipe";
  EXPECT_EQ(outcome.out.find_first_of("\033\r"), std::string::npos) << "no colour on a pipe";
  EXPECT_TRUE(has(outcome.out,
                  " · 5 cases of 2 tasks on cpu\nrows and logs: " + out() + " · history: off\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "layers.1 starts on cpu\n")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "3/3 casts on cpu: 2 PASS, 0 FAIL, 0 ERROR")) << outcome.out;
  expect_test_ids(read_results(out("layers.csv")), 3);
  expect_test_ids(read_results(out("casts.csv")), 2);
  for (const char* log : {"logs/layers.0.log", "logs/layers.1.log", "logs/casts.log"}) {
    EXPECT_TRUE(has(read_file(out(log)), "Score: ")) << log;
  }
}

TEST_F(ToolSuite, ShowsOnATerminalHowLongItWillTake) {
  const std::string shown =
      run_on_terminal("bench suite " + tasks(kBrief) + " -n 0 -d " + out() + " -g products");
  EXPECT_TRUE(has(shown, "] 0/2 layers.0")) << shown;
  EXPECT_TRUE(has(shown, "] 1/2 layers.1, ")) << shown;
  EXPECT_TRUE(has(shown, " s left")) << shown;
}

TEST_F(ToolSuite, RunsTheGroupsThatAreNamed) {
  EXPECT_EQ(run(kBrief, "-g casts").status, 0);
  EXPECT_TRUE(std::filesystem::exists(out("casts.csv")));
  EXPECT_FALSE(std::filesystem::exists(out("layers.csv")));
}

TEST_F(ToolSuite, RunsNothingAgain) {
  ASSERT_EQ(run(kBrief).status, 0);
  const std::string before = read_file(out("layers.csv")) + read_file(out("casts.csv"));
  const Outcome again = run(kBrief);
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_EQ(read_file(out("layers.csv")) + read_file(out("casts.csv")), before) << "times and all";
}

TEST_F(ToolSuite, GoesOnAfterItWasKilled) {
  BackgroundTool suite(background_arguments());
  ASSERT_TRUE(wait_until([&] { return rows_so_far() >= 2; }));
  const std::vector<pid_t> children = children_of(suite.pid());
  ASSERT_FALSE(children.empty());
  EXPECT_EQ(suite.end(SIGKILL), -SIGKILL);
  for (const pid_t child : children) {
    EXPECT_TRUE(wait_until([&] { return has_ended(child); })) << "a child outlives the suite";
  }
  const std::size_t kept = rows_so_far();
  EXPECT_LT(kept, 8u);
  std::set<std::string> lines;  // whole rows, including times
  for (const char* shard : {"shards/slow.0.partial", "shards/slow.1.partial"}) {
    std::istringstream text(read_file(out(shard)));
    std::string line;
    for (std::getline(text, line); std::getline(text, line) && !text.eof();) lines.insert(line);
  }
  EXPECT_GE(lines.size(), 2u);
  // A truncated row, as a killed process leaves it.
  std::ofstream(out("shards/slow.0.partial"), std::ios::app) << "7,cpu,no";

  const Outcome again = run(kSlow);
  EXPECT_EQ(again.status, 0) << again.out << again.err;
  expect_test_ids(read_results(out("slow.csv")), 8);
  const std::string merged = read_file(out("slow.csv"));
  for (const std::string& line : lines) EXPECT_TRUE(has(merged, line)) << "was run again";
}

TEST_F(ToolSuite, EndsWhenItIsAskedTo) {
  BackgroundTool suite(background_arguments());
  ASSERT_TRUE(wait_until([&] { return rows_so_far() >= 1; }));
  const std::vector<pid_t> children = children_of(suite.pid());
  EXPECT_EQ(suite.end(SIGINT), 128 + SIGINT);
  for (const pid_t child : children) EXPECT_TRUE(has_ended(child));
  EXPECT_FALSE(read_results(out("slow.csv")).records.empty()) << "the rows so far are merged";
}

// Children have groups of their own, which a terminal does not stop.
TEST_F(ToolSuite, StopsWithItsChildrenAndGoesOnWithThem) {
  BackgroundTool suite(background_arguments());
  ASSERT_TRUE(wait_until([&] { return rows_so_far() >= 1; }));
  const std::vector<pid_t> children = children_of(suite.pid());
  ASSERT_FALSE(children.empty());
  const auto all_are = [&](bool stopped) {
    return std::all_of(children.begin(), children.end(), [&](pid_t child) {
      return has_ended(child) || (state_of(child) == 'T') == stopped;
    });
  };
  kill(suite.pid(), SIGTSTP);
  EXPECT_TRUE(wait_until([&] { return state_of(suite.pid()) == 'T' && all_are(true); }));
  kill(suite.pid(), SIGCONT);
  EXPECT_TRUE(wait_until([&] { return state_of(suite.pid()) != 'T' && all_are(false); }));
  EXPECT_EQ(suite.end(SIGINT), 128 + SIGINT);
}

TEST_F(ToolSuite, RefusesAFolderInWhichAnotherIsAtWork) {
  BackgroundTool suite(background_arguments());
  ASSERT_TRUE(wait_until([&] { return rows_so_far() >= 1; }));
  kill(suite.pid(), SIGSTOP);  // so that it holds the lock until the other gives up
  for (const pid_t child : children_of(suite.pid())) kill(child, SIGSTOP);
  const Outcome second = run(kSlow);
  EXPECT_EQ(second.status, 2);
  EXPECT_TRUE(has(second.err, "in use by another suite")) << second.err;
}

TEST_F(ToolSuite, NamesTheTaskThatDiedAndItsLog) {
  std::filesystem::create_directories(out("lost.csv.partial"));  // where its rows would go
  const Outcome outcome =
      run("groups: {g: {tasks: [{label: lost, op: gemm, options: {shape: 4x4x4}}, "
          "{label: fine, op: gemm, options: {shape: 4x4x4, warmup: 1, iters: 3}}]}}");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "lost died: exit status 2: octet bench gemm: -o ")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, out("logs/lost.log"))) << outcome.out;
  EXPECT_EQ(read_results(out("fine.csv")).records.size(), 1u) << "the others are still run";
}

TEST_F(ToolSuite, ARowThatDoesNotPassIsStatusOne) {
  const Outcome outcome =
      run_tool("bench suite " +
                   tasks("groups: {g: {tasks: [{label: huge, op: gemm, options: {shape: "
                         "[1x100000000x100000000, 4x4x4], warmup: 1, iters: 3}}]}}") +
                   " -n 0 -d " + out(),
               "ASAN_OPTIONS=allocator_may_return_null=1 TSAN_OPTIONS=allocator_may_return_null=1");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "huge: 1 of 2 rows did not pass")) << outcome.out;
  EXPECT_FALSE(has(outcome.out, "died")) << outcome.out;
}

TEST_F(ToolSuite, AShapeTakenOutOfATaskNoLongerCounts) {
  for (const std::string shards : {"1", "2"}) {
    const auto task = [&](const std::string& shapes) {
      return "groups: {g: {tasks: [{label: layers" + shards + ", op: gemm, shards: " + shards +
             ", options: {shape: [" + shapes + "], warmup: 1, iters: 3}}, {label: casts" + shards +
             ", op: quantize, options: {shape: [8x16" + (shapes.size() > 10 ? ", 8x17" : "") +
             "], warmup: 1, iters: 5}}]}}";
    };
    const Outcome both =
        run_tool("bench suite " + tasks(task("1x100000000x100000000, 4x4x4")) + " -n 0 -d " + out(),
                 "ASAN_OPTIONS=allocator_may_return_null=1 "
                 "TSAN_OPTIONS=allocator_may_return_null=1");
    EXPECT_EQ(both.status, 1) << both.out;
    EXPECT_TRUE(has(both.out, ": 1 of 2 rows did not pass")) << both.out;
    EXPECT_TRUE(has(both.out, " casts" + shards + " on cpu: 4 PASS")) << both.out;
    const Outcome one = run(task("4x4x4"));
    EXPECT_EQ(one.status, 0) << one.out << one.err;
    EXPECT_FALSE(has(one.out, "did not pass")) << one.out;
    EXPECT_TRUE(has(one.out, " casts" + shards + " on cpu: 2 PASS, 0 FAIL, 0 ERROR")) << one.out;
    EXPECT_TRUE(has(one.out, "layers" + shards + ".csv     1     0      0")) << one.out;
    EXPECT_TRUE(has(read_file(out("layers" + shards + ".csv")), "1x100000000x100000000"))
        << "rows are kept";
    EXPECT_EQ(read_results(out("casts" + shards + ".csv")).records.size(), 4u) << "rows are kept";
  }
}

TEST_F(ToolSuite, StartsNothingAfterMaxSeconds) {
  const Outcome outcome = run(kBrief, "--max-seconds 0");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "3 processes not started")) << outcome.out;
  EXPECT_EQ(run(kBrief).status, 0);
  expect_test_ids(read_results(out("layers.csv")), 3);
}

TEST_F(ToolSuite, RefusesBeforeAnythingIsWritten) {
  struct Refusal {
    std::string text;
    std::string more;
    std::string wanted;
  };
  const auto task = [](const std::string& rest) {
    return "groups: {g: {tasks: [{label: a, " + rest + "}]}}";
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {kBrief, "-g none", "no group is called \"none\"; there are: products, casts"},
           {kBrief, "-n 1000", "GPU"},
           {kBrief, "--cpu-slots 0", "--cpu-slots"},
           {"groups: {a: [", "", "tasks.yaml:1:14: not YAML: end of"},
           {task("op: gem"), "",
            "tasks.yaml:1:22: task a: there is no op \"gem\"; there are: gemm"},
           {task("op: gemm, options: {shpe: 1}"), "", "did you mean --shape?"},
           {task("op: gemm, options: {iters: many}"), "", "--iters must be a whole number"},
           {task("op: gemm, options: {model: Nope}"), "",
            "tasks.yaml:1:22: task a: no model is called \"Nope\"; there are: Llama-2-7B"},
           {task("op: gemm, options: {suite: none.csv}"), "", "none.csv"},
           {task("op: gemm, options: {shape: 0x1x1}"), "", "task a: --shape must be MxNxK"},
           {task("op: gemm, options: {shape: 1x1x1, dtype: bf16, prequantized: true}"), "",
            "task a: --prequantized goes with --dtype fp8, got --dtype bf16"},
           {task("op: gemm, options: {shape: 1x1x1, dtype: bf16, format: e5m2}"), "",
            "--format goes with --dtype fp8, got --dtype bf16"},
           {task("op: gemm, options: {shape: 1x1x1, backend: nope}"), "", "\"nope\""},
           {task("op: gemm, options: {shape: 1x1x1, baseline: cublaslt}"), "", "runs on a GPU"},
           {task("op: gemm, options: {shape: 1x1x1, dw: f16, accumulate-dw: true}"), "", "got f16"},
           {task("op: rms-norm, options: {shape: 1x0}"), "", "task a: --shape must be RxC"},
           {task("op: rope, options: {shape: 1x2x100, heads: 3}"), "", "a multiple of --heads 3"},
           {task("op: gated-mlp, options: {dtype: bf16, unfused: true}"), "",
            "--unfused goes with --dtype fp8, got --dtype bf16"}}) {
    const Outcome outcome = run(refusal.text, refusal.more);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(has(outcome.err, refusal.wanted)) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(out()));
  }
}

TEST_F(ToolSuite, SaysThatATaskOfAGpuRunsOnTheCpu) {
  const Outcome outcome =
      run("groups: {g: {tasks: [{label: a, op: gemm, options: {shape: 8x16x32, backend: "
          "cuda_sm90_wgmma}}]}}");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "task a: gemm: cuda_sm90_wgmma, forced by argument")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "the suite runs on the CPU: there is no GPU here, or -n 0"))
      << outcome.err;
}

TEST_F(ToolSuite, KeepsWhatStandsInItsPlace) {
  std::filesystem::create_directory(out());
  std::ofstream(out("casts.csv")) << "mine\n";
  const Outcome foreign = run(kBrief);
  EXPECT_EQ(foreign.status, 2);
  EXPECT_TRUE(has(foreign.err, "does not hold results")) << foreign.err;
  EXPECT_EQ(read_file(out("casts.csv")), "mine\n");
  std::filesystem::remove(out("casts.csv"));
  std::ofstream(out("logs")) << "mine\n";
  const Outcome file = run(kBrief);
  EXPECT_EQ(file.status, 2);
  EXPECT_TRUE(has(file.err, "logs: Not a directory")) << file.err;
  for (const char* place : {"/proc/octet", "/dev/null"}) {
    EXPECT_EQ(run_tool("bench suite " + tasks(kBrief) + " -n 0 -d " + place).status, 2) << place;
  }
}

}  // namespace
}  // namespace octet::tool
