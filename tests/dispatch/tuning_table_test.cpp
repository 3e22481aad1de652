// The tuning table: its file, and the place it has between what is forced and the order of the list.
#include "device/cuda_runtime.hpp"
#include "dispatch/tuned.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "support/environment.hpp"
#include "support/refusal.hpp"

#include <octet/octet.h>
#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace octet {
namespace {

const TuningKey kKey{"gemm --shape 1x2x3", "H200", "driver 13.0", "abc"};
const TunedChoice kChoice{"cpu_simd", "tile=8x48"};
const std::string kLine = "gemm --shape 1x2x3\tH200\tdriver 13.0\tabc\tcpu_simd\ttile=8x48\n";

// A file that is removed with the test.
class TableFile {
 public:
  explicit TableFile(const std::string& content) {
    static int count = 0;
    path_ = testing::TempDir() + "octet_table_" + std::to_string(getpid()) + "_" +
            std::to_string(count++);
    std::ofstream(path_) << content;
  }
  ~TableFile() { std::filesystem::remove(path_); }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The table of the process, put back at the end.
class InUse {
 public:
  explicit InUse(TuningEntries entries) : before_(process_table()) {
    set_process_table(
        std::make_shared<const TuningTable>(TuningTable{"t.table", std::move(entries)}));
  }
  ~InUse() { set_process_table(before_); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::shared_ptr<const TuningTable> before_;
};

TEST(TuningTable, IsReadAsItIsWritten) {
  TuningEntries entries{{kKey, kChoice}};
  entries[{"attention --batch 1, backward", "H200", "-", "def"}] = {"cudnn", "9.19 plan 3"};
  const std::string text = table_text(entries);
  EXPECT_EQ(text,
            "octet tuning table 2, entries: 2\n"
            "attention --batch 1, backward\tH200\t-\tdef\tcudnn\t9.19 plan 3\n" +
                kLine)
      << "in the order of the keys";
  const auto read = parse_table(text, [](const std::string& what) { FAIL() << what; });
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, entries);
}

// What is left where a disk was full: an empty file would be the default without a word.
TEST(TuningTable, AnEmptyFileIsRefused) {
  EXPECT_FALSE(parse_table("", [](const std::string&) {}));
  const TableFile empty("");
  EXPECT_EQ(refusal([&] { read_table(empty.path()); }, ErrorCode::invalid_argument),
            "tuning table " + empty.path() + ": is empty; octet tune export writes a whole table");
}

// What read_table() says of a file with this text.
std::string refusal_of(const std::string& content) {
  const TableFile file(content);
  std::string message = refusal([&] { read_table(file.path()); }, ErrorCode::invalid_argument);
  const std::string start = "tuning table " + file.path() + ": ";
  return message.starts_with(start) ? message.substr(start.size()) : message;
}

// Wherever a table is cut, as by a copy that was killed, a part of it is not taken for a whole one.
TEST(TuningTable, AFileThatWasCutIsRefused) {
  TuningEntries entries{{kKey, kChoice}};
  entries[{"gemm --shape 4x5x6", "H200", "-", "def"}] = {"cpu_simd", "tile=8x48"};
  const std::string whole = table_text(entries);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal_of(whole.substr(0, length)), "nothing was refused") << length << " bytes";
  }
  EXPECT_EQ(read_table(TableFile(whole).path()).entries, entries);
  EXPECT_EQ(refusal_of(whole.substr(0, whole.find("gemm --shape 4x5x6"))),
            "has 1 entry, its first line says 2; octet tune export writes a whole table");
  EXPECT_EQ(refusal_of(whole + "a\tb\tc\td\te\tf\n"),
            "has 3 entries, its first line says 2; octet tune export writes a whole table");
}

TEST(TuningTable, ATableOfBeforeSaysWhatItLacks) {
  EXPECT_EQ(refusal_of("octet tuning table 1\n" + kLine),
            "its first line does not say how many entries it has; if it is whole, with 1, make "
            "that line \"octet tuning table 2, entries: 1\"; octet tune export writes a whole "
            "table");
  EXPECT_EQ(read_table(TableFile("octet tuning table 2, entries: 1\n" + kLine).path()).entries,
            (TuningEntries{{kKey, kChoice}}));
}

// As git writes text on Windows. The configuration of such a line would end with \r, and run nowhere.
TEST(TuningTable, CarriageReturnsAreRefused) {
  const std::string crlf = kLine.substr(0, kLine.size() - 1) + "\r\n";
  EXPECT_EQ(refusal_of("octet tuning table 2, entries: 1\n" + crlf),
            "line 2 has a carriage return: lines must end with \\n, not with \\r\\n; octet tune "
            "export writes a whole table");
  EXPECT_EQ(refusal_of("octet tuning table 2, entries: 1\r\n" + crlf),
            "line 1 has a carriage return: lines must end with \\n, not with \\r\\n; octet tune "
            "export writes a whole table");
}

TEST(TuningTable, BrokenLinesAreNumberedAndTheOthersRead) {
  std::vector<std::string> broken;
  const auto read =
      parse_table("octet tuning table 2, entries: 5\nfive\tfields\tare\tnot\tenough\n" + kLine +
                      "a\tb\tc\td\te\t\n" + kLine + "a\tb\tc\td\te\tcut sho",
                  [&](const std::string& what) { broken.push_back(what); });
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (TuningEntries{{kKey, kChoice}}));
  EXPECT_EQ(broken,
            (std::vector<std::string>{"line 2 has 5 fields separated by tabs, wanted 6",
                                      "line 4 has an empty field", "line 5 repeats an entry",
                                      "line 6 has no end of line"}));
}

TEST(TuningTable, AFileThatIsSomethingElseIsRefused) {
  const std::string long_line(100, 'x');
  for (const auto& [content, shown] :
       {std::pair<std::string, std::string>("my thesis\n", "my thesis"),
        {"octet tuning table 3, entries: 0\n", "octet tuning table 3, entries: 0"},
        {"octet tuning table 2, entries: \n", "octet tuning table 2, entries: "},
        {"octet tuning table 2, entries: -1\n", "octet tuning table 2, entries: -1"},
        {"\n", ""},
        {long_line, long_line.substr(0, 60) + "..."}}) {
    EXPECT_EQ(refusal_of(content),
              "the first line must be \"octet tuning table 2, entries: N\", got \"" + shown +
                  "\"; octet tune export writes a whole table");
  }
}

TEST(TuningTable, WhatCannotBeReadIsRefusedAndTheTableStays) {
  const TableFile good("octet tuning table 2, entries: 1\n" + kLine);
  set_tuning_table(good.path());
  EXPECT_EQ(refusal([] { set_tuning_table("/nonexistent/t"); }, ErrorCode::file_error),
            "tuning table /nonexistent/t: there is no such file");
  EXPECT_EQ(refusal([] { set_tuning_table("/dev/zero"); }, ErrorCode::file_error),
            "tuning table /dev/zero: is not a file");
  EXPECT_EQ(tuning_table(), good.path());
  set_tuning_table("");
  EXPECT_EQ(tuning_table(), "");
}

TEST(TuningTable, IsSetAndNamedInC) {
  const TableFile good("octet tuning table 2, entries: 1\n" + kLine);
  EXPECT_EQ(octet_set_tuning_table(good.path().c_str()), OCTET_OK);
  EXPECT_EQ(octet_tuning_table(), good.path());
  EXPECT_EQ(octet_set_tuning_table("/nonexistent/t"), OCTET_FILE_ERROR);
  EXPECT_STREQ(octet_last_error(), "tuning table /nonexistent/t: there is no such file");
  EXPECT_EQ(octet_tuning_table(), good.path());
  EXPECT_EQ(octet_set_tuning_table(nullptr), OCTET_OK);
  EXPECT_STREQ(octet_tuning_table(), "");
}

TEST(TuningTable, RefusesFieldsThatWouldBreakTheFile) {
  EXPECT_EQ(refusal([] { check_entry("tune", kKey, {"", "x"}); }), "tune: implementation is empty");
  EXPECT_EQ(refusal([] {
              check_entry("tune", kKey, {"x", "a\tb"});
            }),
            "tune: configuration must be one line without tabs, got \"a\tb\"");
}

TEST(TuningKeyOf, HasTheProblemWithoutItsDevice) {
  EXPECT_EQ(tuning_problem("gemm --shape 1x2x3 --device cuda:3", false), "gemm --shape 1x2x3");
  EXPECT_EQ(tuning_problem("attention --device cpu --causal", true),
            "attention --causal, backward");
}

TEST(TuningKeyOf, SaysWhatTheMachineIs) {
  Machine machine;
  machine.threads = 2;
  machine.avx2 = machine.avx512 = true;
  const TuningKey cpu = tuning_key("gemm", "gemm --device cpu", false, kCpu, machine);
  EXPECT_EQ(cpu.device, cpu_model() + ", avx512, 2 threads");
  EXPECT_EQ(cpu.driver, "-");
  EXPECT_EQ(cpu.kernels.size(), 12u) << "a digest: " << cpu.kernels;
  machine.threads = 1;
  EXPECT_NE(tuning_key("gemm", "gemm --device cpu", false, kCpu, machine).device, cpu.device);

  const cuda::Pretend h200(cuda::kH200);
  machine.multiprocessors = 132;
  const TuningKey gpu =
      tuning_key("gemm", "gemm --device cuda:0", false, {DeviceType::cuda, 0}, machine);
  EXPECT_EQ(gpu.device, "NVIDIA H200, 132 multiprocessors");
  EXPECT_EQ(gpu.driver, "driver 13.0");
}

// Plans of a product on the CPU, which has several configurations there.
class TunedGemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!this_machine(kCpu, 1).avx2) GTEST_SKIP() << "this CPU has no AVX2";
    problem_.m = problem_.n = 600;
    problem_.k = 256;
    usual_ = plan_gemm(problem_, {.threads = 1}).configuration;
    for (const Alternative& other : configurations()) {
      if (other.configuration != usual_) other_ = other.configuration;
    }
    ASSERT_FALSE(other_.empty());
  }
  std::vector<Alternative> configurations() const {
    for (const GemmImplementation& one : gemm_implementations()) {
      if (std::string_view(one.name) == "cpu_simd") {
        return one.configurations(problem_, this_machine(kCpu, 1));
      }
    }
    return {};
  }
  TuningKey key() const {
    return tuning_key("gemm", describe(problem_), false, kCpu, this_machine(kCpu, 1));
  }
  GemmPlan plan() const { return plan_gemm(problem_, {.threads = 1}); }
  // What the log says of a plan.
  std::string log() const {
    const ScopedVariable variable("OCTET_LOG", "dispatch");
    testing::internal::CaptureStderr();
    plan();
    return testing::internal::GetCapturedStderr();
  }

  GemmProblem problem_;
  std::string usual_, other_;
};

TEST_F(TunedGemm, HasAtLeastThreeConfigurations) {
  EXPECT_GE(configurations().size(), 3u);
  EXPECT_EQ(configurations()[0].configuration, usual_);
}

TEST_F(TunedGemm, TakesWhatTheTableSays) {
  const InUse table(TuningEntries{{key(), {"cpu_simd", other_}}});
  EXPECT_EQ(plan().implementation, "cpu_simd");
  EXPECT_EQ(plan().configuration, other_);
  EXPECT_EQ(plan().why, "by the tuning table t.table");
  EXPECT_NE(log().find("chosen: cpu_simd \"" + other_ + "\" (by the tuning table t.table)"),
            std::string::npos)
      << log();
}

TEST_F(TunedGemm, AnotherImplementationMayBeTuned) {
  const InUse table(TuningEntries{{key(), {"cpu_reference", "scalar"}}});
  EXPECT_EQ(plan().implementation, "cpu_reference");
}

TEST_F(TunedGemm, EnvironmentAndArgumentsBeatTheTable) {
  const InUse table(TuningEntries{{key(), {"cpu_simd", other_}}});
  const GemmPlan argument = plan_gemm(problem_, {.backend = "cpu_reference", .threads = 1});
  EXPECT_EQ(argument.implementation, "cpu_reference");
  EXPECT_EQ(plan_gemm(problem_, {.threads = 1, .configuration = usual_}).configuration, usual_);
  const ScopedVariable variable("OCTET_GEMM_BACKEND", "cpu_reference");
  EXPECT_EQ(plan().why, "forced by OCTET_GEMM_BACKEND");
}

TEST_F(TunedGemm, OtherProblemsAndMachinesAreNotInTheTable) {
  TuningKey other = key();
  other.problem += " --bias f32";
  TuningKey elsewhere = key();
  elsewhere.device = "another CPU";
  const InUse table(
      TuningEntries{{other, {"cpu_simd", other_}}, {elsewhere, {"cpu_simd", other_}}});
  EXPECT_EQ(plan().configuration, usual_);
  EXPECT_EQ(log().find("t.table"), std::string::npos) << log();
}

TEST_F(TunedGemm, AStaleEntryIsNeverUsed) {
  TuningKey driver = key();
  driver.driver = "driver 12.8";
  TuningKey kernels = key();
  kernels.kernels = "000000000000";
  for (const auto& [stale, reason] :
       {std::pair{driver, "it was measured with driver 12.8, here are -"},
        std::pair{kernels, "it was measured with kernels 000000000000, here are kernels "}}) {
    const InUse table(TuningEntries{{stale, {"cpu_simd", other_}}});
    EXPECT_EQ(plan().configuration, usual_);
    EXPECT_NE(log().find("tuning table t.table: its entry, cpu_simd \"" + other_ +
                         "\", is not used: " + reason),
              std::string::npos)
        << log();
  }
}

TEST_F(TunedGemm, AnEntryThatCannotRunIsNotUsed) {
  for (const auto& [choice, reason] :
       {std::pair{TunedChoice{"cpu_simd", "tile=1x1"}, "these run the problem:\n    "},
        std::pair{TunedChoice{"cuda_sm90_wgmma", "x"}, "the problem is on cpu"},
        std::pair{TunedChoice{"nonsense", "x"}, "no implementation has this name"}}) {
    const InUse table(TuningEntries{{key(), choice}});
    EXPECT_EQ(plan().configuration, usual_);
    EXPECT_NE(log().find(std::string("is not used: ") + reason), std::string::npos) << log();
  }
}

// An implementation that finds out while it plans that it cannot run the problem, as libraries of others do.
using OnePlan = Planned<int>;
OnePlan plan_that_throws(const GemmProblem&, const Machine&) {
  fail(ErrorCode::unsupported, "cudnn: no plan");
}
OnePlan plan_that_breaks(const GemmProblem&, const Machine&) {
  fail(ErrorCode::device_error, "cuda: broken");
}
std::string takes_all(const GemmProblem&, const Machine&) { return ""; }

TEST(TunedEntry, ThatIsUnsupportedWhenItIsPlannedIsNotUsed) {
  const std::vector<Implementation<GemmProblem, int>> list{{"library", takes_all, plan_that_throws},
                                                           {"broken", takes_all, plan_that_breaks}};
  const std::vector<Candidate> all = candidates(std::span(list), GemmProblem{}, Machine{});
  TableEntry entry{"library", "algorithm 3", "t.table", ""};
  EXPECT_FALSE(plan_entry(std::span(list), all, GemmProblem{}, Machine{}, entry));
  EXPECT_EQ(entry.refusal, "cudnn: no plan");
  TableEntry broken{"broken", "algorithm 3", "t.table", ""};
  EXPECT_EQ(refusal([&] { plan_entry(std::span(list), all, GemmProblem{}, Machine{}, broken); },
                    ErrorCode::device_error),
            "cuda: broken");
}

// Every configuration has the bits of every other.
TEST_F(TunedGemm, NoConfigurationChangesABit) {
  problem_ = {.m = 61, .n = 150, .k = 300};
  Tensor input(Dtype::f32, {problem_.n, problem_.k});
  for (std::int64_t i = 0; i < problem_.n * problem_.k; ++i) {
    static_cast<float*>(input.data())[i] = static_cast<float>(i * 37 % 201 - 100) / 7;
  }
  QuantizedTensor a(problem_.m, problem_.k, Dtype::e4m3, kBlock1x128);
  QuantizedTensor b(problem_.n, problem_.k, Dtype::e4m3, kBlock128x128);
  QuantizeProblem cast{.rows = problem_.m, .cols = problem_.k, .input_dtype = Dtype::f32};
  run(plan_quantize(cast), {make_view(input.data(), Dtype::f32, {problem_.m, problem_.k}), a, {}});
  cast.rows = problem_.n;
  cast.block = kBlock128x128;
  run(plan_quantize(cast), {input, b, {}});
  const auto product = [&](const PlanOptions& options) {
    const GemmPlan plan = plan_gemm(problem_, options);
    const Buffer workspace(plan.workspace_bytes);
    const Tensor d(Dtype::bf16, {problem_.m, problem_.n});
    run(plan, {a, b, d}, {workspace.data(), workspace.bytes()});
    const auto* bits = static_cast<const std::uint16_t*>(d.data());
    return std::vector<std::uint16_t>(bits, bits + problem_.m * problem_.n);
  };
  const auto wanted = product({.backend = "cpu_reference"});
  for (const Alternative& one : configurations()) {
    EXPECT_EQ(product({.threads = 1, .configuration = one.configuration}), wanted)
        << one.configuration;
  }
}

TEST(TunedOnAnH200, TakesATileFromTheTable) {
  const cuda::Pretend h200(cuda::kH200);
  GemmProblem problem;
  problem.m = problem.n = problem.k = 4096;
  problem.device = {DeviceType::cuda, 0};
  const TuningKey key =
      tuning_key("gemm", describe(problem), false, problem.device, this_machine(problem.device, 0));
  const std::string other = "64x64x10 1x128.128x128 e4m3.e4m3";
  const InUse table(TuningEntries{{key, {"cuda_sm90_wgmma", other}}});
  EXPECT_EQ(plan_gemm(problem).configuration, other);
  problem.m = 2048;
  EXPECT_NE(plan_gemm(problem).configuration, other) << "another problem";
}

TEST(TunedPasses, AreTunedApart) {
  AttentionProblem problem;
  problem.batch = 1;
  problem.seq_q = problem.seq_kv = 8;
  problem.heads_q = problem.heads_kv = 1;
  problem.dim_qk = 16;
  const Machine machine = this_machine(kCpu, 0);
  const InUse table(TuningEntries{{tuning_key("attention", describe(problem), true, kCpu, machine),
                                   {"cpu_reference", "scalar"}}});
  EXPECT_EQ(plan_attention_backward(problem).implementation, "cpu_reference");
  EXPECT_NE(plan_attention_forward(problem).why.substr(0, 6), "by the");
}

TEST(RecordedCalls, HaveTheProblemsOfThePlansOfTheirThread) {
  Fp8LinearProblem layer{.m = 8, .n = 16, .k = 24};
  const RecordedCalls calls;
  {
    const RecordedCalls inner;
    plan_gemm({.m = 1, .n = 2, .k = 3});
    ASSERT_EQ(inner.problems().size(), 1u);
    EXPECT_EQ(inner.problems()[0], describe(GemmProblem{.m = 1, .n = 2, .k = 3}));
  }
  EXPECT_TRUE(calls.problems().empty());
  std::thread([] { plan_gemm({.m = 1, .n = 2, .k = 3}); }).join();
  EXPECT_TRUE(calls.problems().empty()) << "another thread's";
  plan_fp8_linear_backward(layer);
  const auto products =
      std::count_if(calls.problems().begin(), calls.problems().end(),
                    [](const std::string& one) { return one.rfind("gemm ", 0) == 0; });
  EXPECT_EQ(products, 2);
}

TEST(OctetLog, PrintsCallsForTuning) {
  const ScopedVariable variable("OCTET_LOG", "calls");
  testing::internal::CaptureStderr();
  plan_gemm({.m = 1, .n = 2, .k = 3});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "octet call: " + describe(GemmProblem{.m = 1, .n = 2, .k = 3}) + "\n");
}

TEST(TuningTableThreads, IsReplacedWhileOthersPlan) {
  const TuningEntries entries{{kKey, kChoice}};
  const InUse table(entries);
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) {
      set_process_table(
          i % 2 == 0 ? nullptr : std::make_shared<const TuningTable>(TuningTable{"u", entries}));
    }
  });
  std::vector<std::thread> planners;
  for (int i = 0; i < 3; ++i) {
    planners.emplace_back([] {
      for (int j = 0; j < 100; ++j) plan_gemm({.m = 1, .n = 2, .k = 3});
    });
  }
  writer.join();
  for (std::thread& planner : planners) planner.join();
}

}  // namespace
}  // namespace octet
