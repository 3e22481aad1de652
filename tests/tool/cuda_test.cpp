// The tool on a Hopper GPU. On a machine without one, its error message.
#include "results.hpp"

#include "support/on_cuda.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

TEST(ToolCuda, NamesTheCountOfDevicesWhereThereIsNone) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  for (const char* command :
       {"bench gemm --shape 1x1x1", "bench quantize", "check gemm --shape 1x1x1", "check quantize",
        "check gemm --shape 1x1x1 --a bf16 --b bf16"}) {
    const Outcome outcome = run_tool(std::string(command) + " --device cuda");
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_NE(outcome.err.find("which has 0 CUDA devices"), std::string::npos) << outcome.err;
  }
  const Outcome first_call = run_tool("doctor --first-call");
  EXPECT_EQ(first_call.status, 2);
  EXPECT_NE(first_call.err.find("0 CUDA devices"), std::string::npos) << first_call.err;
}

TEST(ToolCuda, TimesALayerBetweenEventsAndWatchesTheClocks) {
  OCTET_NEEDS_HOPPER();
  const BenchRun run("gemm --shape 512x768x1024 --shape 257x384x640 --warmup 3 --iters 20");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  for (const Fields& record : run.results.records) {
    EXPECT_EQ(record.at("Platform"), "cuda") << "the default where a Hopper GPU is there";
    EXPECT_NE(record.at("GPU"), "none");
    EXPECT_EQ(record.at("Check"), "PASS");
    EXPECT_EQ(record.at("Warmup"), "3");
    EXPECT_EQ(record.at("Iterations"), "20");
    EXPECT_NE(record.at("Backend").find("gemm=cuda_sm90_"), std::string::npos);
    EXPECT_GT(number_in(record, "Combined Step TFLOPS"), 1);
    EXPECT_GT(number_in(record, "Clock (MHz)"), 0);
    EXPECT_GT(number_in(record, "Power (W)"), 0);
    EXPECT_FALSE(record.at("Throttle").empty());
  }
}

TEST(ToolCuda, TimesTheProductsBesideCublasLt) {
  OCTET_NEEDS_HOPPER();
  const BenchRun run(
      "gemm --device cuda --shape 1024x1024x1024 --prequantized --baseline cublaslt "
      "--warmup 3 --iters 20");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  EXPECT_EQ(run.row().at("Baseline"), "cublaslt");
  EXPECT_GT(number_in(run.row(), "Combined Ratio"), 0);
}

TEST(ToolCuda, TimesAttentionBesideCudnn) {
  OCTET_NEEDS_HOPPER();
  if (cuda::cudnn_version() <= 0) GTEST_SKIP() << "no cuDNN on this machine";
  for (const char* deterministic : {"", " --deterministic-baseline"}) {
    const BenchRun run(
        fmt::format("attention --device cuda --seq 512 --heads 8x2 --head-dim 128 --causal "
                    "--backend cudnn --baseline cudnn{} --warmup 3 --iters 20",
                    deterministic));
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    EXPECT_EQ(run.row().at("Deterministic"), "True");
    EXPECT_EQ(run.row().at("Baseline"),
              *deterministic == '\0' ? "cudnn_nondeterministic" : "cudnn");
    EXPECT_EQ(run.row().at("Baseline Configuration").rfind("version=9.", 0), 0u) << run.text();
    for (const char* ratio : {"Forward Ratio", "Backward Ratio", "Combined Ratio"}) {
      EXPECT_GT(number_in(run.row(), ratio), 0);
    }
  }
}

TEST(ToolCuda, SetsACastBesideADeviceCopy) {
  OCTET_NEEDS_HOPPER();
  const BenchRun run("quantize --device cuda --shape 2048x4096 --warmup 3 --iters 20");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  EXPECT_NE(run.outcome.out.find("TB/s"), std::string::npos) << run.text();
  for (const Fields& record : run.results.records) {
    EXPECT_GT(number_in(record, "GB/s"), 100);
    EXPECT_GT(number_in(record, "Memcpy GB/s"), 500) << "a device copy, not the host's";
  }
}

TEST(ToolCuda, TellsWhatTheFirstCallTakes) {
  OCTET_NEEDS_HOPPER();
  const Outcome outcome = run_tool("doctor --first-call");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* line : {"above an empty CUDA program", "the first plan of the process",
                           "a later plan of a gemm", "run(gemm) on the host"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
  }
}

}  // namespace
}  // namespace octet::tool
