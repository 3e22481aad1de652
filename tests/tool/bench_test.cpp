// The rows octet bench writes, read back as a user's script would.
#include "results.hpp"

#include <algorithm>
#include <cmath>

namespace octet::tool {
namespace {

// The first columns of every result of gemm, in this order.
const bench::Row kFirstColumns = columns(
    "TestID,Platform,GPU,Case,MBS,M,N,K,Dtype,Granularity,Check,Forward Time (ms),Forward TFLOPS,"
    "Backward Time (ms),Backward TFLOPS,Combined Step Time (ms),Combined Step TFLOPS");

void expect_rate(const Fields& record, const std::string& part, double products) {
  const double operations =
      2 * products * number_in(record, "M") * number_in(record, "N") * number_in(record, "K");
  const double time_ms = number_in(record, part + " Time (ms)");
  EXPECT_GT(time_ms, 0);
  const double expected = operations / (time_ms * 1e-3) / 1e12;
  EXPECT_NEAR(number_in(record, part + " TFLOPS") / expected, 1, 1e-4) << part;
}

// Where memory ends Linux ends the process: so much is not even tried.
TEST(ToolBench, ACaseTooLargeForTheMemoryIsAnErrorByItself) {
  const BenchRun run(
      "gemm --device cpu --shape 2000000x2000000x8 --shape 8x16x32 --warmup 1 --iters 2");
  EXPECT_EQ(run.outcome.status, 1) << run.text();
  ASSERT_EQ(run.results.records.size(), 2u) << run.text();
  EXPECT_EQ(run.row().at("Check"), "ERROR");
  EXPECT_EQ(run.row().at("Note").rfind("bench: the workload takes ", 0), 0u)
      << run.row().at("Note");
  EXPECT_EQ(run.results.records[1].at("Check"), "PASS");
}

TEST(ToolBench, WritesOneCheckedRowPerShape) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const Outcome outcome = run_tool(
      "bench gemm --device cpu --shape 32x64x129 --shape 33x40x50 --warmup 1 --iters 3 --threads 2 "
      "--seed 7 "
      "-o " +
      path);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "") << "no progress bar on a pipe";
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "no colour on a pipe";
  EXPECT_NE(outcome.out.find("Score: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("2 PASS, 0 FAIL, 0 ERROR"), std::string::npos) << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));

  const Results results = read_results(path);
  expect_first_columns(results.header, kFirstColumns);
  ASSERT_EQ(results.records.size(), 2u);
  for (const Fields& record : results.records) {
    EXPECT_EQ(record.at("Check"), "PASS");
    EXPECT_EQ(record.at("Platform"), "cpu");
    EXPECT_EQ(record.at("Dtype"), "fp8");
    EXPECT_EQ(record.at("Granularity"), "blockwise");
    EXPECT_EQ(record.at("Iterations"), "3");
    EXPECT_EQ(record.at("Warmup"), "1");
    EXPECT_EQ(record.at("Threads"), "2");
    EXPECT_EQ(record.at("Seed"), "7");
    EXPECT_EQ(record.at("Wgrad Blocks"), "1d");
    EXPECT_EQ(record.at("GPU"), "none");
    EXPECT_EQ(record.at("Device Sources"), kernels_of("gemm"));
    for (const char* of_a_gpu : {"Power (W)", "Temperature (C)", "Throttle"}) {
      EXPECT_EQ(record.at(of_a_gpu), "") << of_a_gpu;
    }
    EXPECT_FALSE(record.at("Commit").empty());
    EXPECT_FALSE(record.at("Configuration").empty());
    EXPECT_NE(record.at("Backend").find("gemm=cpu_"), std::string::npos);
    expect_rate(record, "Forward", 1);
    expect_rate(record, "Backward", 2);
    expect_rate(record, "Combined Step", 3);
    for (const char* tensor : {"Forward", "dX", "dW"}) {
      EXPECT_GT(number_in(record, std::string(tensor) + " G1 SNR (dB)"), 25);
    }
    EXPECT_GT(number_in(record, "f16 SNR (dB)"), number_in(record, "Forward G1 SNR (dB)"));
  }
  EXPECT_EQ(results.records[1].at("N"), "40");
}

TEST(ToolBench, TheCommandOfARowRepeatsIt) {
  const Folder folder;
  const std::string first = folder.file("first.csv");
  const std::string again = folder.file("again.csv");
  ASSERT_EQ(run_tool("bench gemm --device cpu --shape 8x40x130 --format e5m2 --grad-format e5m2 "
                     "--wgrad-blocks "
                     "2d --dw f32 --accumulate-dw --bias f32 --dbias bf16 --pow2-scales "
                     "--amax-floor 0.0001 --distribution "
                     "skewed --warmup 1 --iters 3 -o " +
                     first)
                .status,
            0);
  const std::string command = read_results(first).records.at(0).at("Command");
  ASSERT_EQ(command.rfind("octet bench gemm ", 0), 0u) << command;
  ASSERT_EQ(run_tool(command.substr(6) + " -o " + again).status, 0) << command;
  const Fields a = read_results(first).records.at(0);
  const Fields b = read_results(again).records.at(0);
  EXPECT_EQ(b.at("Command"), command);
  EXPECT_EQ(a.at("Forward G1 SNR (dB)"), b.at("Forward G1 SNR (dB)")) << "not the same data";
  EXPECT_EQ(b.at("Wgrad Blocks"), "2d");
}

TEST(ToolBench, ARowOfEveryGranularityRepeats) {
  for (const std::string granularity : {"tensorwise", "rowwise", "mxfp8"}) {
    const BenchRun run("gemm --device cpu --shape 33x40x130 --format hybrid --granularity " +
                       granularity + " --distribution outliers --warmup 1 --iters 3");
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    const Fields& record = run.row();
    EXPECT_EQ(record.at("Granularity"), granularity);
    EXPECT_EQ(record.at("Check"), "PASS");
    EXPECT_EQ(record.at("Wgrad Blocks"), granularity == "mxfp8" ? "1d" : "");
    const std::string command = record.at("Command");
    EXPECT_NE(command.find("--grad-format e5m2"), std::string::npos) << command;
    const BenchRun again(command.substr(std::string("octet bench ").size()));
    ASSERT_EQ(again.outcome.status, 0) << again.text();
    EXPECT_EQ(again.row().at("Command"), command);
    EXPECT_EQ(again.row().at("dW G2 SNR (dB)"), record.at("dW G2 SNR (dB)"));
    EXPECT_EQ(record.at("Device Sources"),
              octet_device_sources(granularity == "mxfp8" ? "fp8_linear_mx" : "fp8_linear_whole"));
  }
}

TEST(ToolBench, PutsThePeersTimeOverOurs) {
  const BenchRun run(
      "gemm --device cpu --shape 32x64x64 --prequantized --baseline openblas "
      "--seconds-per-case 0.2");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  EXPECT_NE(run.outcome.out.find("Speed: "), std::string::npos) << run.text();
  const Fields& record = run.row();
  EXPECT_EQ(record.at("Baseline"), "openblas");
  EXPECT_GE(number_in(record, "Iterations"), 5);
  for (const char* part : {"Forward", "Backward", "Combined"}) {
    EXPECT_GT(number_in(record, std::string(part) + " Ratio"), 0) << part;
  }
  EXPECT_NEAR(number_in(record, "Baseline Forward Time (ms)") +
                  number_in(record, "Baseline Backward Time (ms)"),
              number_in(record, "Baseline Combined Step Time (ms)"), 1e-3);
}

TEST(ToolBench, TimesPlainProducts) {
  for (const std::string dtype : {"bf16", "f16"}) {
    const BenchRun run("gemm --device cpu --dtype " + dtype +
                       " --shape 33x65x40 --warmup 1 --iters 3");
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    const Fields& record = run.row();
    EXPECT_EQ(record.at("Dtype"), dtype);
    EXPECT_EQ(record.at("Granularity"), "none");
    EXPECT_GT(number_in(record, "dW G4 SNR (dB)"), 45);
    expect_rate(record, "Backward", 2);
  }
}

TEST(ToolBench, ACaseThatCannotBeRunIsAnErrorRowAndStatusOne) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  // 2 * 10^16 bytes of weights exceed any address space; the other case must still run.
  const Outcome outcome = run_tool(
      "bench gemm --device cpu --shape 1x100000000x100000000 --shape 4x4x4 --warmup 1 --iters 3 "
      "-o " +
          path,
      "ASAN_OPTIONS=allocator_may_return_null=1 TSAN_OPTIONS=allocator_may_return_null=1");
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("1 PASS, 0 FAIL, 1 ERROR"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("repeat with: octet check gemm "), std::string::npos) << outcome.out;
  const Results results = read_results(path);
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[0].at("Check"), "ERROR");
  EXPECT_FALSE(results.records[0].at("Note").empty());
  for (std::size_t c = 11; c < kFirstColumns.size(); ++c) {
    EXPECT_EQ(results.records[0].at(kFirstColumns[c]), "") << kFirstColumns[c];
  }
  EXPECT_EQ(results.records[1].at("Check"), "PASS");
}

TEST(ToolBench, AColdRowSaysSo) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  for (const std::string op : {"gemm --shape 8x16x32", "quantize --shape 64x256"}) {
    const Outcome outcome =
        run_tool("bench " + op + " --device cpu --cold --warmup 1 --iters 3 --fresh -o " + path);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Fields record = read_results(path).records.at(0);
    EXPECT_EQ(record.at("Note").rfind("cold", 0), 0u) << record.at("Note");
    EXPECT_NE(record.at("Command").find(" --cold"), std::string::npos) << record.at("Command");
    EXPECT_EQ(record.at("Check"), "PASS");
  }
}

TEST(ToolBench, TheCommandHasWhatTheEnvironmentForced) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  struct Forced {
    std::string op;
    std::string asked;  // the variables that apply to it
  };
  const std::string others = "OCTET_REPACK_BACKEND=none OCTET_RMS_NORM_ROPE_BACKEND= ";
  for (const Forced& forced : std::vector<Forced>{
           {"gemm --shape 8x16x32",
            "OCTET_GEMM_BACKEND=fp8:cpu_reference OCTET_QUANTIZE_BACKEND=cpu_reference "},
           {"rms-norm --shape 8x16", "OCTET_RMS_NORM_BACKEND=cpu_reference "},
           {"gated-mlp --dtype bf16 --shape 8x16x32",
            "OCTET_GEMM_BACKEND=cpu_reference OCTET_GATED_ACTIVATION_BACKEND=cpu_reference "}}) {
    const std::string command =
        "bench " + forced.op + " --device cpu --warmup 1 --iters 3 -o " + path;
    ASSERT_EQ(run_tool(command + " --fresh", forced.asked + others).status, 0) << forced.op;
    const std::string told = read_results(path).records.at(0).at("Command");
    EXPECT_EQ(told.rfind(forced.asked + "octet bench ", 0), 0u) << told;
    const Outcome again = run_tool(command, forced.asked + others);
    EXPECT_NE(again.out.find("1 of 1 case already in "), std::string::npos) << again.out;
    const Outcome free = run_tool(command);
    EXPECT_EQ(free.out.find("already"), std::string::npos) << free.out;
  }
  const Outcome check =
      run_tool("check rope --shape 1x2x128 --device cpu -v", "OCTET_ROPE_BACKEND=cpu_reference ");
  EXPECT_NE(check.out.find("repeat with: OCTET_ROPE_BACKEND=cpu_reference octet check rope "),
            std::string::npos)
      << check.out;
}

TEST(ToolBench, BeginsNoCaseAfterMaxSeconds) {
  const Outcome outcome = run_tool("bench gemm --device cpu --max-seconds 0");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("16 of 16 cases not started"), std::string::npos) << outcome.out;
}

TEST(ToolBench, ReadsCasesFromAFile) {
  const Folder folder;
  const std::string cases = folder.file("cases.csv");
  const std::string path = folder.file("x.csv");
  std::ofstream(cases)
      << "test_id,model,op,mbs,M,N,K\n41,Tiny,up,2,8,16,32\n42,Other,up,1,8,16,32\n";
  ASSERT_EQ(run_tool("bench gemm --device cpu --suite " + cases +
                     " --model tiny --warmup 1 --iters 3 -o " + path)
                .status,
            0);
  const Results results = read_results(path);
  ASSERT_EQ(results.records.size(), 1u);
  EXPECT_EQ(results.records[0].at("TestID"), "41");
  EXPECT_EQ(results.records[0].at("Case"), "Tiny up");
  EXPECT_EQ(results.records[0].at("MBS"), "2");
}

TEST(ToolBench, SetsACastBesideACopyOfTheSameBytes) {
  const BenchRun run("quantize --device cpu --shape 64x256 --warmup 1 --iters 5");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  const Results& results = run.results;
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[0].at("Transposed Block"), "1x128");
  EXPECT_EQ(results.records[1].at("Block"), "128x128");
  for (const Fields& record : results.records) {
    EXPECT_EQ(record.at("Check"), "PASS");
    EXPECT_GT(number_in(record, "Memcpy Ratio"), 0);
    const double expected =
        number_in(record, "Bytes") / (number_in(record, "Time (ms)") * 1e-3) / 1e9;
    EXPECT_NEAR(number_in(record, "GB/s") / expected, 1, 1e-4);
  }
}

// Only what is read and written counts: 300 rows in, 500 rows and 3 token blocks out.
TEST(ToolBench, CastsGroupsBesideACopyOfTheSameBytes) {
  const BenchRun run(
      "quantize --device cpu --shape 500x256 --group-sizes 0,100,0,200 --block 1x128 "
      "--transposed-block 1x128 --warmup 1 --iters 5");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  ASSERT_EQ(run.results.records.size(), 1u);
  const Fields& record = run.results.records[0];
  EXPECT_EQ(record.at("Check"), "PASS");
  const std::int64_t table = 4 * group_table_words(4, 500);
  EXPECT_EQ(number_in(record, "Bytes"),
            300 * 256 * 2 + 500 * (256 + 2 * 4) + 3 * 256 * (128 + 4) + static_cast<double>(table));
  EXPECT_NE(record.at("Command").find("--groups 4 "), std::string::npos) << record.at("Command");
  EXPECT_NE(record.at("Command").find(" --group-sizes 0,100,0,200"), std::string::npos)
      << record.at("Command");
}

TEST(ToolBench, CastsABatchBesideACopyOfTheSameBytes) {
  const BenchRun run(
      "quantize --device cpu --shape 130x256 --batch 3 --block 128x128 --warmup 1 --iters 5");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  ASSERT_EQ(run.results.records.size(), 1u);
  EXPECT_EQ(run.results.records[0].at("Check"), "PASS");
  EXPECT_EQ(number_in(run.results.records[0], "Bytes"), 3 * (130 * 256 * 3 + 4 * 4));
}

}  // namespace
}  // namespace octet::tool
