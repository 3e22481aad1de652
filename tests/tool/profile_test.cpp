// octet profile: what it reads from ncu and what it prints. The ncu here is a script.
#include "background_tool.hpp"
#include "fake_ncu.hpp"
#include "refusal.hpp"
#include "results.hpp"

#include "tool/operators/operator.hpp"
#include "tool/profile/kernel_rows.hpp"
#include "tool/profile/launches.hpp"
#include "tool/profile/profile_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <regex>

namespace octet::tool {
namespace {

constexpr const char* kCase = "profile gemm --shape 64x96x128 --device cuda --seconds 0 ";

double counter(const std::vector<double>& values, const std::string& column) {
  for (std::size_t i = 0; i < counters().size(); ++i) {
    if (counters()[i].column == column) return values.at(i);
  }
  throw std::runtime_error("no counter is called " + column);
}

KernelLaunch launch(const std::string& function, double seconds, const std::string& grid = "") {
  return {function, grid, "", {{"gpu__time_duration.sum", seconds}}};
}

void expect_in(const std::string& text, const std::string& wanted) {
  EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\nis not in\n" << text;
}

// A profile on any machine: an ncu and a build that are scripts.
class ProfileRun : public testing::Test {
 protected:
  Folder folder_;
  std::string ncu_ = write_fake_ncu(folder_);
  std::string build_ = write_cpu_build(folder_);
  std::string output_ = folder_.file("counters.csv");

  Outcome run(const std::string& more, const std::string& environment = "") const {
    return run_tool(
        fmt::format("{} --build {} --ncu {} -o {} {}", kCase, build_, ncu_, output_, more),
        environment);
  }
  // What the scripts were called with, in their order.
  std::string calls() const { return read_file(folder_.file("calls")); }
};

TEST(NcuReport, ReadsTheLaunchesBetweenTheLinesOfNcu) {
  const auto launches = parse_ncu(
      "==PROF== Connected to process 4\n"
      "\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"gpu__time_duration.sum\","
      "\"sm__inst\",\"launch__registers_per_thread\",\"dram__bytes_read.sum.per_second\"\n"
      "\"\",\"\",\"\",\"\",\"us\",\"\",\"register/thread\",\"Gbyte/second\"\n"
      "\"0\",\"void f<\"\"a\"\">(int, int)\",\"(32, 1, 1)\",\"(2, 1, 1)\",\"1,234.5\",\"n/a\","
      "\"168\",\"960\"\r\n"
      "==PROF== Disconnected from process 4\n");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].function, "void f<\"a\">(int, int)");
  EXPECT_EQ(launches[0].grid, "(2, 1, 1)");
  EXPECT_EQ(launches[0].block, "(32, 1, 1)");
  EXPECT_NEAR(launches[0].metrics.at("gpu__time_duration.sum"), 1234.5e-6, 1e-12);
  EXPECT_EQ(launches[0].metrics.at("launch__registers_per_thread"), 168);
  EXPECT_EQ(launches[0].metrics.at("dram__bytes_read.sum.per_second"), 960e9);
  EXPECT_EQ(launches[0].metrics.count("sm__inst"), 0u) << "n/a";
}

TEST(NcuReport, HasNoLaunchesWithoutATable) {
  EXPECT_TRUE(parse_ncu("").empty());
  EXPECT_TRUE(parse_ncu("==WARNING== No kernels were profiled.\n").empty());
}

TEST(NcuReport, UnitsHavePrefixes) {
  EXPECT_DOUBLE_EQ(base_units("ns"), 1e-9);
  EXPECT_DOUBLE_EQ(base_units("msecond"), 1e-3);
  EXPECT_DOUBLE_EQ(base_units("Mhz"), 1e6);
  EXPECT_DOUBLE_EQ(base_units("cycle/nsecond"), 1e9);
  EXPECT_DOUBLE_EQ(base_units("Tbyte/s"), 1e12);
  EXPECT_DOUBLE_EQ(base_units("Ksector"), 1e3);
  for (const char* unit : {"", "%", "register/thread", "sector", "second"}) {
    EXPECT_DOUBLE_EQ(base_units(unit), 1) << unit;
  }
}

TEST(NcuReport, AnErrorNamesTheMetricsThatDoNotExist) {
  const std::vector<std::string> asked{"sm__a.sum", "sm__a_b.sum", "dram__c.sum",
                                       "dram__c.sum.per_second"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(unknown_metrics("==ERROR== Failed to find metric regex:^sm__a\\.(sum|avg)$\n", asked),
            Names{"sm__a.sum"});
  EXPECT_EQ(unknown_metrics("==ERROR== Failed to find metric sm__a_b.sum\n", asked),
            Names{"sm__a_b.sum"});
  EXPECT_EQ(unknown_metrics("==ERROR== Failed to find metric dram__c\n", asked),
            (Names{"dram__c.sum", "dram__c.sum.per_second"}));
  EXPECT_EQ(unknown_metrics("==PROF== sm__a.sum\n==ERROR== The application failed\n", asked),
            Names{});
}

TEST(NcuReport, ShortensTheNamesOfKernels) {
  EXPECT_EQ(short_name("void octet::sm90::gemm_kernel<octet::Constant<octet::C{1, 2}>>(Maps, int)"),
            "gemm_kernel");
  EXPECT_EQ(short_name("void octet::(anonymous namespace)::scan<(octet::Dtype)3>(int)"), "scan");
  EXPECT_EQ(short_name("octet::<unnamed>::count_slots_kernel(const int *)"), "count_slots_kernel");
  EXPECT_EQ(short_name("nvjet_sm90_tst_128x256"), "nvjet_sm90_tst_128x256");
}

TEST(Counters, TakeTheFirstWayThatIsThere) {
  const std::vector<double> values =
      counter_values({{"gpu__time_duration.sum", 2e-6},
                      {"dram__bytes_read.sum.pct_of_peak_sustained_elapsed", 20},
                      {"dram__bytes_write.sum.pct_of_peak_sustained_elapsed", 5},
                      {"dram__bytes_read.sum.per_second", 1e12},
                      {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 10},
                      {"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 20}});
  EXPECT_DOUBLE_EQ(counter(values, "Duration (us)"), 2);
  EXPECT_DOUBLE_EQ(counter(values, "Memory (%)"), 25);
  EXPECT_TRUE(std::isnan(counter(values, "Memory (TB/s)"))) << "without the bytes written";
  EXPECT_DOUBLE_EQ(counter(values, "Spills (bytes)"), 960);
  EXPECT_TRUE(std::isnan(counter(values, "Registers")));
}

TEST(KernelRows, AreTheKernelsOfACall) {
  const std::vector<KernelLaunch> launches{
      launch("void cast(int)", 1e-6), launch("gemm", 9e-6), launch("gemm", 5e-6),
      launch("void cast(int)", 3e-6), launch("gemm", 7e-6), launch("gemm", 6e-6)};
  const std::vector<KernelRow> rows = kernel_rows("backward", launches, 2);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].kernel, "cast");
  EXPECT_EQ(rows[0].part, "backward");
  EXPECT_EQ(rows[0].launches, 2u);
  EXPECT_DOUBLE_EQ(counter(rows[0].counters, "Duration (us)"), 2);
  EXPECT_DOUBLE_EQ(counter(rows[1].counters, "Duration (us)"), 8);
  EXPECT_DOUBLE_EQ(counter(rows[2].counters, "Duration (us)"), 5.5);
}

TEST(KernelRows, HaveAGridEachWhereCallsDiffer) {
  const std::vector<KernelRow> rows =
      kernel_rows("forward",
                  {launch("a", 1, "(1, 1, 1)"), launch("b", 1), launch("a", 3, "(1, 1, 1)"),
                   launch("a", 7, "(2, 1, 1)")},
                  2);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].launches, 2u);
  EXPECT_EQ(rows[2].grid, "(2, 1, 1)");
}

TEST(KernelRows, ArePairedByPositionOrElseByName) {
  const auto pairs_of = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<KernelRow> first, second;
    for (const std::string& name : a) first.push_back({"forward", name, "", "", "", 1, {}});
    for (const std::string& name : b) second.push_back({"forward", name, "", "", "", 1, {}});
    std::vector<std::string> text;
    for (const auto& [x, y] : paired(first, second)) {
      text.push_back((x != nullptr ? x->kernel : "-") + " " + (y != nullptr ? y->kernel : "-"));
    }
    return text;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(pairs_of({"cast", "gemm"}, {"cast", "gemm_cluster"}),
            (Texts{"cast cast", "gemm gemm_cluster"}));
  EXPECT_EQ(pairs_of({"cast", "gemm", "gemm"}, {"gemm", "fused"}),
            (Texts{"cast -", "gemm gemm", "gemm -", "- fused"}));
}

TEST(Profile, RunsThePartsOfEveryOperator) {
  for (const MakeOperator make : operators()) {
    const std::unique_ptr<Operator> op = make();
    const std::vector<std::string> parts = parts_of(op->rows());
    const Outcome outcome =
        run_tool(fmt::format("profile {} {} --device cpu --only launches --launches 1", op->name(),
                             op->examples(true)[0]));
    EXPECT_EQ(outcome.status, 0) << op->name() << outcome.err;
    for (const std::string& part : parts) expect_in(outcome.out, part + " backend: ");
  }
}

TEST(Profile, TimesAPartAfterItsGates) {
  const Outcome outcome = run_tool(
      "profile rms-norm --shape 64x256 --device cpu --only timing --seconds 0.01 --part backward");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Facts facts = parse_facts(outcome.out);
  EXPECT_EQ(facts.at("check"), "PASS");
  EXPECT_GT(std::stod(facts.at("backward time (ms)")), 0);
  EXPECT_EQ(facts.count("forward time (ms)"), 0u);
  EXPECT_EQ(facts.count("backward power (W)"), 0u) << "on the CPU";
}

TEST(Profile, ChecksTheGatesEvenIfItTimesNothing) {
  const Outcome outcome =
      run_tool("profile rms-norm --shape 64x256 --device cpu --only timing --seconds 0");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Facts facts = parse_facts(outcome.out);
  EXPECT_EQ(facts.at("check"), "PASS");
  EXPECT_EQ(facts.count("forward time (ms)"), 0u);
}

TEST(Profile, RefusesTheCpu) {
  const Outcome outcome = run_tool("profile rope --shape 2x33x512 --device cpu");
  EXPECT_EQ(outcome.status, 2);
  expect_in(outcome.err, "counters are read on a GPU, and 2x33x512 would run on the CPU");
  expect_in(outcome.err, "octet bench rope times it there");
}

TEST(Profile, WithoutNcuSaysHowToGetIt) {
  const Folder folder;
  const Outcome outcome = run_tool(kCase, "PATH=" + folder.path().string());
  EXPECT_EQ(outcome.status, 2);
  for (const char* wanted : {"ncu, the command of Nsight Compute, is not on PATH", "looked in ",
                             "CUDA toolkit", "nsight-compute-2025.3.1", "--ncu PATH",
                             "NVreg_RestrictProfilingToAdminUsers=0", "gVisor"}) {
    expect_in(outcome.err, wanted);
  }
  const Outcome missing = run_tool(std::string(kCase) + "--ncu " + folder.file("no"));
  EXPECT_EQ(missing.status, 2);
  expect_in(missing.err, "--ncu " + folder.file("no") + ": No such file or directory");
}

TEST_F(ProfileRun, PrintsTheCountersAndWritesThemAsCsv) {
  const Outcome outcome = run("--launches 2");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  for (const char* wanted : {"gemm_kernel", "quantize_kernel", "tensor %", "91.25", "200.5",
                             "backward", "from empty caches"}) {
    expect_in(outcome.out, wanted);
  }
  const Results results = read_results(output_);
  ASSERT_EQ(results.records.size(), 4u) << "two kernels in each part";
  const Fields& row = results.records[1];
  EXPECT_EQ(row.at("Operator"), "gemm");
  EXPECT_EQ(row.at("Shape"), "64x96x128");
  EXPECT_EQ(row.at("Build"), build_);
  EXPECT_EQ(row.at("Part"), "forward");
  EXPECT_EQ(row.at("Kernel"), "gemm_kernel");
  EXPECT_EQ(row.at("Launches"), "2");
  EXPECT_EQ(row.at("Duration (us)"), "200.5");
  EXPECT_EQ(row.at("Tensor Pipe (%)"), "91.25");
  EXPECT_EQ(row.at("L2 Hits (%)"), "") << "n/a";
  EXPECT_EQ(row.at("Memory (%)"), "12.5");
  EXPECT_EQ(row.at("SM Clock (GHz)"), "1.5");
  EXPECT_EQ(row.at("Spills (bytes)"), "32768");
  EXPECT_EQ(row.at("Check"), "PASS");
  EXPECT_EQ(row.at("Time (ms)"), "") << "not timed";
  EXPECT_FALSE(row.at("Commit").empty());
  EXPECT_EQ(row.at("Command").rfind("octet profile gemm ", 0), 0u) << row.at("Command");
  EXPECT_EQ(results.records[3].at("Part"), "backward");
  for (const char* wanted :
       {"--clock-control none", "--profile-from-start off", "--page raw --print-units base",
        "--only launches --part forward --launches 2"}) {
    expect_in(calls(), wanted);
  }
  EXPECT_EQ(run("").status, 0) << "a profile is replaced";
}

TEST_F(ProfileRun, ChecksTheGatesBeforeNcu) {
  ASSERT_EQ(run("").status, 0);
  EXPECT_LT(calls().find("--only timing"), calls().find("--clock-control")) << calls();
  std::filesystem::remove(folder_.file("calls"));
  std::filesystem::remove(output_);
  build_ = write_cpu_build(folder_, "wrong", "echo 'check: FAIL'; exit 1");
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.out, build_ + ": a gate failed; octet check gemm ");
  EXPECT_FALSE(has(outcome.out, "gemm_kernel")) << outcome.out;
  EXPECT_FALSE(has(calls(), "--clock-control")) << "ncu ran\n" << calls();
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(ProfileRun, ABuildThatCannotBeCheckedHasNoCounters) {
  const std::string broken = write_cpu_build(folder_, "broken", "echo no such luck; exit 3");
  const Outcome outcome = run("--against " + broken);
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.out, broken + ": not checked: " + broken + " ended with exit status 3");
  expect_in(outcome.out, "  no such luck");
  expect_in(outcome.out, "gemm_kernel");
  const Results results = read_results(output_);
  ASSERT_EQ(results.records.size(), 4u) << "those of the other build";
  EXPECT_EQ(results.records[3].at("Build"), build_);
}

TEST_F(ProfileRun, WritesTheRowsOfACaseWhenItIsDone) {
  ncu_ = write_fake_ncu(folder_, "[[ $* = *32x96x128* ]] && exit 9\n");
  const Outcome outcome = run("--shape 32x96x128");
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.err, build_ + ": ncu ended with exit status 9");
  const Results results = read_results(output_);
  ASSERT_EQ(results.records.size(), 4u) << "those of the first case";
  EXPECT_EQ(results.records[3].at("Shape"), "64x96x128");
}

TEST_F(ProfileRun, RefusesAFileItCannotWriteBeforeAnythingRuns) {
  std::ofstream(output_) << "something else\n";
  const Outcome foreign = run("");
  EXPECT_EQ(foreign.status, 2);
  expect_in(foreign.err, "does not hold a profile of octet");
  EXPECT_EQ(read_file(output_), "something else\n");
  output_ = folder_.file("none/counters.csv");
  const Outcome unwritable = run("");
  EXPECT_EQ(unwritable.status, 2);
  expect_in(unwritable.err,
            "-o " + output_ + ": No such file or directory; wanted a file in a folder");
  EXPECT_EQ(calls(), "");
}

TEST_F(ProfileRun, FindsANamedNcuOnPath) {
  std::filesystem::rename(ncu_, folder_.file("ncu-2025"));
  ncu_ = "ncu-2025";
  const std::string path = "PATH=" + folder_.path().string() + ":$PATH";
  EXPECT_EQ(run("", path).status, 0);
  expect_in(calls(), "--clock-control");
  ncu_ = "ncu-2024";
  const Outcome missing = run("", path);
  EXPECT_EQ(missing.status, 2);
  expect_in(missing.err, "--ncu ncu-2024: no such program on PATH (looked in ");
}

TEST_F(ProfileRun, DropsMetricsThatNcuDoesNotKnow) {
  ncu_ = write_fake_ncu(folder_, R"(
if [[ $metrics = *gpu__dram_throughput* ]]; then
  echo '==ERROR== Failed to find metric regex:^gpu__dram_throughput\.(avg)$' > "$log"
  exit 1
fi
)");
  const Outcome outcome = run("--part forward");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_in(outcome.out,
            "this ncu does not know: gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\n");
  expect_in(outcome.out, "12.5");
}

TEST_F(ProfileRun, ShowsTheLastLinesOfAnNcuThatFails) {
  ncu_ = write_fake_ncu(folder_,
                        "echo '==ERROR== no such luck' > \"$log\"; echo from octet; exit 9\n");
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.err, "ncu ended with exit status 9; its last lines:\n  ==ERROR== no such luck");
  expect_in(outcome.err, "  from octet");
}

TEST_F(ProfileRun, NamesTheBuildThatFailsUnderNcu) {
  const std::string old = write_cpu_build(folder_, "old");
  ncu_ = write_fake_ncu(folder_, "[[ $program = *old ]] && exit 9\n");
  const Outcome outcome = run("--against " + old);
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.err, old + ": ncu ended with exit status 9");
}

TEST_F(ProfileRun, SaysHowCountersMayBeRead) {
  for (const std::string error : {"ERR_NVGPUCTRPERM", "LibraryNotLoaded"}) {
    ncu_ = write_fake_ncu(folder_, "echo '==ERROR== " + error + "' > \"$log\"; exit 0\n");
    const Outcome outcome = run("");
    EXPECT_EQ(outcome.status, 1);
    expect_in(outcome.err, "ncu may not read the counters (" + error + ").");
    expect_in(outcome.err, "options nvidia NVreg_RestrictProfilingToAdminUsers=0");
  }
}

TEST_F(ProfileRun, PutsTwoBuildsSideBySide) {
  const std::string old = write_cpu_build(folder_, "old");
  const Outcome outcome = run("--seconds 0.01 --part forward --against " + old);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto expect_line = [&](const char* line) {
    EXPECT_TRUE(std::regex_search(outcome.out, std::regex(line))) << line << "\n" << outcome.out;
  };
  expect_line("counter +this +against +difference\n");
  expect_line("gemm_kernel +us +201 +301 +-33\\.2 %\n");
  expect_line("tensor % +91\\.25 +91\\.25 +=\n");
  const Results results = read_results(output_);
  ASSERT_EQ(results.records.size(), 4u);
  for (const std::size_t place : {1, 3}) {
    const Fields& row = results.records[place];
    EXPECT_EQ(row.at("Build"), place == 1 ? build_ : old);
    EXPECT_EQ(row.at("Duration (us)"), place == 1 ? "201" : "301");
    EXPECT_EQ(row.at("Check"), "PASS");
    EXPECT_GT(number_in(row, "Time (ms)"), 0);
  }
}

TEST_F(ProfileRun, EndsNcuAndWhatItStartedWhenItIsStopped) {
  ncu_ = write_fake_ncu(folder_, "echo $$ > '" + folder_.file("pid") + "'\nsleep 300\n");
  BackgroundTool tool({"profile", "gemm", "--shape", "64x96x128", "--device", "cuda", "--seconds",
                       "0", "--build", build_, "--ncu", ncu_, "-o", output_});
  const auto pid_of_ncu = [&] { return std::atoi(read_file(folder_.file("pid")).c_str()); };
  ASSERT_TRUE(wait_until([&] { return pid_of_ncu() > 0 && !children_of(pid_of_ncu()).empty(); }));
  const pid_t ncu = pid_of_ncu();
  const pid_t started = children_of(ncu).front();
  EXPECT_EQ(tool.end(SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(wait_until([&] { return has_ended(ncu) && has_ended(started); }));
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(ProfileRun, PassesItsOptionsOnAsTheyAre) {
  const std::string table = folder_.file("octet bench my.table");
  std::ofstream(table) << "octet tuning table 2, entries: 0\n";
  const Outcome outcome = run("--seed 7", "OCTET_TUNING_TABLE='" + table + "'");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_in(calls(), "profile gemm ");
  expect_in(calls(), " --seed 7 --only timing");
  EXPECT_EQ(read_results(output_).records.at(0).at("Command").rfind(
                "OCTET_TUNING_TABLE='" + table + "' octet profile gemm ", 0),
            0u)
      << read_results(output_).records.at(0).at("Command");
}

TEST(Profile, RefusesOptionsThatDoNotGoTogether) {
  const Outcome baseline = run_tool(std::string(kCase) + "--baseline cublaslt");
  EXPECT_EQ(baseline.status, 2);
  expect_in(baseline.err, "--baseline cublaslt is timed by octet bench");
  const Outcome only = run_tool(std::string(kCase) + "--only timing -o x.csv");
  EXPECT_EQ(only.status, 2);
  expect_in(only.err, "--only runs this build without ncu");
}

}  // namespace
}  // namespace octet::tool
