// The hash that ties a result to the kernels it was measured with.
#include "results.hpp"
#include "stale_results.hpp"

#include "ops/gemm/sm90/compiled.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/provenance.hpp"

#include <octet/octet.h>

#include <fstream>

namespace octet::tool {
namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(DeviceSources, AreWrittenToEveryRowAsTheLibraryTellsThem) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  ASSERT_EQ(
      run_tool("bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3 -o " + path).status,
      0);
  EXPECT_EQ(read_results(path).records.at(0).at("Device Sources"), octet_device_sources("gemm"));
}

// Casts and activations over groups have kernels, and a digest, of their own.
TEST(DeviceSources, AreThoseOfExpertsWithGroupsOrABatch) {
  EXPECT_EQ(digest_of("octet bench quantize --shape 8x16"), "quantize");
  EXPECT_EQ(digest_of("octet bench quantize --shape 8x16 --groups 2"), "quantize_experts");
  EXPECT_EQ(digest_of("octet bench quantize --shape 8x16 --batch 2"), "quantize_experts");
  EXPECT_EQ(digest_of("octet bench quantize --shape 8x16 --block 1xall"), "quantize_lines");
  EXPECT_EQ(digest_of("octet bench quantize --transposed-block 128x1"), "quantize_lines");
  EXPECT_EQ(digest_of("octet bench quantize --block 32x32"), "quantize_mx");
  EXPECT_EQ(digest_of("octet bench quantize --block 1x128 --fold-mx"), "quantize_mx");
  EXPECT_EQ(digest_of("octet bench rms-norm --fp8 e4m3"), "rms-norm");
  EXPECT_EQ(digest_of("octet bench rms-norm --fp8 e4m3 --block 1xall"), "rms-norm_lines");
  EXPECT_EQ(digest_of("octet bench gated-activation --fp8 e5m2 --transposed-block 32x32"),
            "gated-activation_lines");
  EXPECT_EQ(digest_of("octet bench gated-activation --groups 2"), "gated-activation_experts");
  EXPECT_EQ(digest_of("octet bench grouped-gemm --groups 2"), "grouped-gemm");
  EXPECT_EQ(digest_of("tools/peers.py --op quantize --granularity rowwise"), "quantize_lines");
  EXPECT_EQ(digest_of("octet bench gemm --dtype bf16"), "gemm_bf16");
  EXPECT_EQ(digest_of("tools/peers.py --op grouped-gemm --dtype bf16"), "grouped-gemm_bf16");
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8 --granularity rowwise --fast-accumulation"),
            "fp8_linear_fast");
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8 --granularity blockwise"), "gemm");
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8", "256x128x4 1x128.128x128 e4m3.e4m3"), "gemm");
  for (const Sm90GemmConfig& narrow : kSm90NarrowConfigs) {
    const std::string tiles = "128x128x6 1x128.1x128 e4m3.e4m3; " + name(narrow);
    EXPECT_EQ(digest_of("octet bench gemm --dtype fp8", tiles), "gemm_narrow") << tiles;
  }
  EXPECT_EQ(digest_of("octet bench gemm --dtype bf16", "128x256x4 bf16.bf16 k.k"), "gemm_bf16");
  EXPECT_EQ(digest_of("octet bench gemm --dtype bf16",
                      "128x256x4 bf16.bf16 k.k; 256x128x4 bf16.bf16 k.mn cluster"),
            "gemm_bf16");
  for (const Sm90GemmConfig& wide : kSm90WideConfigs) {
    const std::string tiles = "128x256x4 bf16.bf16 k.mn; " + name(wide);
    EXPECT_EQ(digest_of("octet bench gemm --dtype bf16", tiles), "gemm_by_name16") << tiles;
  }
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (config.gemm.a != Dtype::bf16) continue;
    EXPECT_EQ(digest_of("octet bench grouped-gemm --dtype bf16", name(config)),
              config.width == Width::by_sizes ? "grouped-gemm_by_name16" : "grouped-gemm_bf16")
        << name(config);
  }
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8 --granularity tensorwise"), "fp8_linear_whole");
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8 --granularity rowwise"), "fp8_linear_whole");
  EXPECT_EQ(digest_of("octet bench gemm --dtype fp8 --granularity mxfp8"), "fp8_linear_mx");
  EXPECT_EQ(digest_of("octet bench gated-mlp --granularity rowwise"), "gated-mlp_whole");
  EXPECT_EQ(digest_of("octet bench gated-mlp --granularity mxfp8 --down"), "gated-mlp_mx");
  EXPECT_EQ(digest_of("octet bench gated-mlp --dtype f16"), "gated-mlp_f16");
  EXPECT_EQ(digest_of("octet bench gated-mlp", "128x160x5 1x128.128x128 e4m3.e4m3"),
            "gated-mlp_narrow");
  EXPECT_EQ(digest_of("octet bench linear-cross-entropy --dtype bf16"),
            "linear-cross-entropy_bf16");
  const Folder folder;
  const std::string path = folder.file("x.csv");
  ASSERT_EQ(run_tool("bench quantize --device cpu --shape 8x16 --groups 2 --warmup 1 --iters 3 "
                     "--block 1x128 -o " +
                     path)
                .status,
            0);
  const std::string digest = octet_device_sources("quantize_experts");
  EXPECT_EQ(digest.empty(), std::string(octet_device_sources("quantize")).empty());
  EXPECT_EQ(read_results(path).records.at(0).at("Device Sources"), digest);
}

TEST(DeviceSources, OfEveryKindOfLayerAreKnown) {
  const bool without_cuda = std::string(octet_device_sources("gemm")).empty();
  for (const char* op : {"gemm", "gated-mlp", "linear-cross-entropy", "grouped-gemm"}) {
    const bool has_granularities = op == std::string("gemm") || op == std::string("gated-mlp");
    for (const char* options :
         {"", " --dtype bf16", " --dtype f16", " --granularity rowwise", " --granularity mxfp8",
          " --granularity tensorwise --fast-accumulation"}) {
      if (!has_granularities && has_option(options, "--granularity")) continue;
      const std::string command = std::string("octet bench ") + op + options;
      EXPECT_EQ(device_sources(digest_of(command)).empty(), without_cuda) << command;
    }
    for (const char* tiles : {"128x160x5 1x128.128x128 e4m3.e4m3", "64x64x10 1x128.1x128 paired"}) {
      EXPECT_EQ(device_sources(digest_of(std::string("octet bench ") + op, tiles)).empty(),
                without_cuda)
          << op;
    }
  }
}

TEST(CommandLine, KeepsAPathWithSpacesOneWord) {
  EXPECT_EQ(shell_word("/tables/h200-1.table"), "/tables/h200-1.table");
  EXPECT_EQ(shell_word("/my tables/$a"), "'/my tables/$a'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_word(""), "''");
  for (const std::string table : {"/my octet bench/a b.table", "/it's/a b.table"}) {
    const std::string variable = "OCTET_TUNING_TABLE=" + shell_word(table);
    const std::string command = variable + " octet bench gemm --dtype fp8 --shape 8x16x32";
    EXPECT_EQ(environment_of(command), std::vector<std::string>{variable});
    EXPECT_EQ(operator_of(command), "gemm");
    EXPECT_EQ(settings_of(command), variable);
    EXPECT_EQ(repeated_command(command + " --seed 3"), command);
  }
}

TEST(StaleResults, OfPeersFollowTheConfigurationInTheNoteOfOctet) {
  const std::string command = "tools/peers.py --op gemm --dtype fp8 --shape 512x5120x13824";
  const auto measured = [&](const std::string& note) {
    return measured_in(
        parse_csv("Product,Library,Device Sources,Note,Command\nforward,cublaslt,aaa,," + command +
                      "\nforward,octet,aaa," + note + "," + command + "\n",
                  "peers.csv"));
  };
  EXPECT_EQ(measured("cuda_sm90_wgmma: 128x160x5 1x128.128x128 e4m3.e4m3"),
            (std::set<Measured>{{"gemm_narrow", "aaa"}}));
  EXPECT_EQ(measured("cuda_sm90_wgmma: 128x256x4 1x128.128x128 e4m3.e4m3"),
            (std::set<Measured>{{"gemm", "aaa"}}));
  EXPECT_EQ(measured(""), (std::set<Measured>{{"gemm", "aaa"}}));
}

TEST(StaleResults, AreNamedWithBothHashes) {
  const Folder folder;
  const fs::path results = folder.path() / "results";
  write(results / "README.md", "text");
  write(results / "h200/new.csv", "Device Sources,Command\naaa,octet bench gemm --shape 1x2x3\n");
  write(
      results / "h200/old.csv",
      "Device Sources,Command\naaa,octet bench gemm\nbbb,octet bench gemm\nbbb,octet bench gemm\n");
  write(results / "h200/other.csv",
        "Device Sources,Command\naaa,octet bench rms-norm\naaa,tools/peers.py --op quantize\n");
  write(results / "h200/peers.csv", "TestID,Peer\n1,x\n");
  write(results / "h200/broken.csv", "a,\"b\n");
  const Tree tree{[](const std::string& op) {
                    return op == "gemm" ? "aaa" : op == "rms-norm" ? "ccc" : "";
                  },
                  planned_row};
  const auto lines = stale_results(results.string(), tree);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].rfind("UNREADABLE: results/h200/broken.csv", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1],
            "STALE: results/h200/old.csv was measured with device sources bbb, the tree has aaa of "
            "gemm");
  EXPECT_EQ(lines[2],
            "STALE: results/h200/other.csv was measured with device sources aaa, the tree has none "
            "of quantize");
  EXPECT_EQ(lines[3],
            "STALE: results/h200/other.csv was measured with device sources aaa, the tree has ccc "
            "of rms-norm");
  EXPECT_TRUE(stale_results(folder.file("missing"), tree).empty());
}

TEST(PlannedRows, DependOnTheMultiprocessorsThatProductsMayTake) {
  for (const std::string layer :
       {"gemm --shape 4096x4096x4096", "gemm --shape 4096x4096x4096 --prequantized",
        "gated-mlp --shape 4096x4096x4096 --down", "linear-cross-entropy --shape 4096x4096x4096",
        "grouped-gemm --shape 32768x4096x4096 --groups 4",
        "moe-mlp --shape 16384x4096x4096 --experts 4"}) {
    const std::string command = "octet bench " + layer + " --device cuda:0";
    const auto usual = planned_row("h200", command);
    EXPECT_NE(planned_row("h200", command + " --max-multiprocessors 1"), usual) << command;
    EXPECT_EQ(planned_row("h200", command + " --max-multiprocessors 132"), usual) << command;
  }
}

// Every published command is planned, with no GPU at hand.
TEST(StaleResults, NameTheConfigurationThatIsPlannedNow) {
  const std::string command = "octet bench gemm --shape 8192x8192x8192 --device cuda:0";
  EXPECT_EQ(planned_row("another gpu", command), std::nullopt);
  const std::optional<PlannedRow> now = planned_row("h200", command);
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->backend, "quantize=cuda_sm90_tile gemm=cuda_sm90_wgmma");
  EXPECT_EQ(now->configuration,
            "256x128x4 1x128.128x128 e4m3.e4m3 cluster; backward: 256x128x4 1x128.1x128 e4m3.e4m3 "
            "paired cluster");
  const Folder folder;
  const fs::path results = folder.path() / "results";
  const auto write_row = [&](const std::string& configuration) {
    write(results / "h200/x.csv", "Backend,Configuration,Command\n" + now->backend + "," +
                                      configuration + "," + command + "\n");
  };
  const Tree tree{[](const std::string&) { return ""; }, planned_row};
  write_row(now->configuration);
  EXPECT_TRUE(stale_results(results.string(), tree).empty());
  write_row("64x64x10");
  const auto lines = stale_results(results.string(), tree);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "STALE: results/h200/x.csv was measured with \"" + now->backend +
                          " 64x64x10\", the tree plans \"" + now->backend + " " +
                          now->configuration + "\" for " + command);
  write(results / "h200/x.csv",
        "Backend,Configuration,Command\na,b,octet bench gemm --shape 1x2\n");
  ASSERT_EQ(stale_results(results.string(), tree).size(), 1u);
  EXPECT_EQ(stale_results(results.string(), tree)[0].rfind("UNREADABLE: results/h200/x.csv", 0),
            0u);
}

}  // namespace
}  // namespace octet::tool
