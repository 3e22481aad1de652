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

TEST(Profile, PrintsTheCountersAndWritesThemAsCsv) {
  const Folder folder;
  write_fake_ncu(folder);
  const std::string output = folder.file("counters.csv");
  const std::string command = std::string(kCase) + "--launches 2 -o " + output;
  const std::string path = "PATH=" + folder.path().string() + ":$PATH";
  const Outcome outcome = run_tool(command, path);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  for (const char* wanted : {"gemm_kernel", "quantize_kernel", "tensor %", "91.25", "200.5",
                             "backward", "from empty caches"}) {
    expect_in(outcome.out, wanted);
  }
  const Results results = read_results(output);
  ASSERT_EQ(results.records.size(), 4u) << "two kernels in each part";
  const Fields& row = results.records[1];
  EXPECT_EQ(row.at("Operator"), "gemm");
  EXPECT_EQ(row.at("Shape"), "64x96x128");
  EXPECT_EQ(row.at("Build"), "this");
  EXPECT_EQ(row.at("Part"), "forward");
  EXPECT_EQ(row.at("Kernel"), "gemm_kernel");
  EXPECT_EQ(row.at("Launches"), "2");
  EXPECT_EQ(row.at("Duration (us)"), "200.5");
  EXPECT_EQ(row.at("Tensor Pipe (%)"), "91.25");
  EXPECT_EQ(row.at("L2 Hits (%)"), "") << "n/a";
  EXPECT_EQ(row.at("Memory (%)"), "12.5");
  EXPECT_EQ(row.at("SM Clock (GHz)"), "1.5");
  EXPECT_EQ(row.at("Spills (bytes)"), "32768");
  EXPECT_EQ(row.at("Power (W)"), "") << "not timed";
  EXPECT_FALSE(row.at("Commit").empty());
  EXPECT_EQ(row.at("Command").rfind("octet profile gemm ", 0), 0u) << row.at("Command");
  EXPECT_EQ(results.records[3].at("Part"), "backward");
  const std::string calls = read_file(folder.file("calls"));
  for (const char* wanted :
       {"--clock-control none", "--profile-from-start off", "--page raw --print-units base",
        "--only launches --part forward --launches 2"}) {
    expect_in(calls, wanted);
  }
  EXPECT_EQ(run_tool(command, path).status, 0) << "a profile is replaced";
  std::ofstream(output) << "something else\n";
  const Outcome refused = run_tool(command, path);
  EXPECT_EQ(refused.status, 2);
  expect_in(refused.err, "does not hold a profile of octet");
}

TEST(Profile, DropsMetricsThatNcuDoesNotKnow) {
  const Folder folder;
  const std::string ncu = write_fake_ncu(folder, R"(
if [[ $metrics = *gpu__dram_throughput* ]]; then
  echo '==ERROR== Failed to find metric regex:^gpu__dram_throughput\.(avg)$' > "$log"
  exit 1
fi
)");
  const Outcome outcome = run_tool(std::string(kCase) + "--part forward --ncu " + ncu);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_in(outcome.out,
            "this ncu does not know: gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\n");
  expect_in(outcome.out, "12.5");
}

TEST(Profile, ShowsTheLastLinesOfAnNcuThatFails) {
  const Folder folder;
  const std::string ncu =
      write_fake_ncu(folder, "echo '==ERROR== no such luck' > \"$log\"; echo from octet; exit 9\n");
  const Outcome outcome = run_tool(std::string(kCase) + "--ncu " + ncu);
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.err, "ncu ended with exit status 9; its last lines:\n  ==ERROR== no such luck");
  expect_in(outcome.err, "  from octet");
}

TEST(Profile, SaysHowCountersMayBeRead) {
  const Folder folder;
  const std::string ncu = write_fake_ncu(
      folder, "echo '==ERROR== ERR_NVGPUCTRPERM - no permission' > \"$log\"; exit 0\n");
  const Outcome outcome = run_tool(std::string(kCase) + "--ncu " + ncu);
  EXPECT_EQ(outcome.status, 1);
  expect_in(outcome.err, "options nvidia NVreg_RestrictProfilingToAdminUsers=0");
}

TEST(Profile, PutsTwoBuildsSideBySide) {
  const Folder folder;
  const std::string ncu = write_fake_ncu(folder);
  // Another build, which takes the CPU where this one is asked for a GPU.
  const std::string old =
      write_script(folder, "old", "exec " + tool_path() + " \"$@\" --device cpu\n");
  const std::string output = folder.file("counters.csv");
  const Outcome outcome = run_tool(
      fmt::format("profile gemm --shape 64x96x128 --device cuda --seconds 0.01 --part forward "
                  "--ncu {} --against {} -o {}",
                  ncu, old, output));
  for (const char* wanted : {"against", "difference", "-33.2 %", "="}) {
    expect_in(outcome.out, wanted);
  }
  const Results results = read_results(output);
  ASSERT_EQ(results.records.size(), 4u);
  EXPECT_EQ(results.records[1].at("Build"), "this");
  EXPECT_EQ(results.records[3].at("Build"), old);
  EXPECT_EQ(results.records[3].at("Duration (us)"), "301");
  EXPECT_EQ(results.records[3].at("Check"), "PASS");
  EXPECT_FALSE(results.records[3].at("Time (ms)").empty());
  if (cuda_device_count() > 0) return;
  EXPECT_EQ(outcome.status, 1) << "this build could not be timed";
  expect_in(outcome.out, "not timed: ");
  EXPECT_EQ(results.records[1].at("Time (ms)"), "");
}

TEST(Profile, EndsNcuWhenItIsStopped) {
  const Folder folder;
  const std::string output = folder.file("counters.csv");
  const std::string ncu =
      write_fake_ncu(folder, "echo $$ > '" + folder.file("pid") + "'\n" + "exec sleep 300\n");
  BackgroundTool tool(
      {"profile", "gemm", "--shape", "64x96x128", "--device", "cuda", "--ncu", ncu, "-o", output});
  const auto pid_of_ncu = [&] { return std::atoi(read_file(folder.file("pid")).c_str()); };
  ASSERT_TRUE(wait_until([&] { return pid_of_ncu() > 0; }));
  const int pid = pid_of_ncu();
  EXPECT_EQ(tool.end(SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(has_ended(pid));
  EXPECT_FALSE(std::filesystem::exists(output));
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
