// octet bench and octet check of the memory-bound operators, as a user runs them.
#include "result_files.hpp"
#include "results.hpp"

#include "tool/cases/cases.hpp"
#include "tool/options/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

// The first columns of every result of such an operator, in this order.
const bench::Row kFirstColumns = columns(
    "TestID,Platform,GPU,Case,Operator,Shape,Dtype,Options,Check,Forward Time (ms),Forward GB/s,"
    "Forward Copy Ratio,Backward Time (ms),Backward GB/s,Backward Copy Ratio,"
    "Combined Step Time (ms),Combined Step GB/s,Combined Copy Ratio,Forward Bytes,Backward Bytes");

struct Sample {
  const char* name;
  const char* op;
  const char* shape;
  const char* options;  // as in the row, without shape, dtype and device
};

class ToolMemoryOp : public testing::TestWithParam<Sample> {};

void expect_rate(const Fields& row, const std::string& part, double bytes) {
  const double seconds = number_in(row, part + " Time (ms)") * 1e-3;
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(number_in(row, part + " GB/s") / (bytes / seconds / 1e9), 1, 1e-4) << part;
}

TEST_P(ToolMemoryOp, IsCheckedAndTimedBesideACopy) {
  const Sample& sample = GetParam();
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string arguments = std::string(sample.op) + " --shape " + sample.shape + " " +
                                sample.options + " --device cpu --threads 2";
  const Outcome outcome =
      run_tool("bench " + arguments + " --warmup 1 --iters 5 --seed 3 -o " + path);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("1 PASS, 0 FAIL, 0 ERROR"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("Share of copy bandwidth: "), std::string::npos) << outcome.out;

  const Results results = read_results(path);
  expect_first_columns(results.header, kFirstColumns);
  ASSERT_EQ(results.records.size(), 1u);
  const Fields& row = results.records[0];
  EXPECT_EQ(row.at("Check"), "PASS");
  EXPECT_EQ(row.at("Operator"), sample.op);
  EXPECT_EQ(row.at("Shape"), sample.shape);
  EXPECT_EQ(row.at("Dtype"), "bf16");
  EXPECT_EQ(row.at("Options"), sample.options);
  EXPECT_EQ(row.at("Device Sources"), kernels_of(sample.op));
  EXPECT_EQ(row.at("Threads"), "2");
  EXPECT_EQ(row.at("Seed"), "3");
  EXPECT_FALSE(row.at("Backend").empty());
  EXPECT_FALSE(row.at("Commit").empty());
  const double forward_bytes = number_in(row, "Forward Bytes");
  const double backward_bytes = number_in(row, "Backward Bytes");
  expect_rate(row, "Forward", forward_bytes);
  expect_rate(row, "Backward", backward_bytes);
  expect_rate(row, "Combined Step", forward_bytes + backward_bytes);
  for (const char* part : {"Forward", "Backward", "Combined"}) {
    EXPECT_GT(number_in(row, std::string(part) + " Copy Ratio"), 0) << part;
  }
  EXPECT_GT(number_in(row, "Backward SNR (dB)"), 45);

  const std::string command = row.at("Command");
  ASSERT_EQ(command.rfind("octet bench ", 0), 0u) << command;
  const std::string again = folder.file("again.csv");
  ASSERT_EQ(run_tool(command.substr(6) + " -o " + again).status, 0) << command;
  EXPECT_EQ(read_results(again).records.at(0).at("Command"), command);
}

INSTANTIATE_TEST_SUITE_P(
    , ToolMemoryOp,
    testing::Values(
        Sample{"RmsNorm", "rms-norm", "40x130", "--weight bf16"},
        Sample{"RmsNormFp8", "rms-norm", "40x130",
               "--weight f32 --residual --fp8 e4m3 --block 1x128 --transposed-block none"},
        Sample{"Rope", "rope", "2x20x256", "--head-dim 64 --kv-heads 2 --positions i64"},
        Sample{"RmsNormRope", "rms-norm-rope", "2x20x256", "--head-dim 64 --norm head"},
        Sample{"GatedActivation", "gated-activation", "40x130", "--activation silu --row-weight"},
        Sample{"MoeRoute", "moe-route", "130x16",
               "--top-k 3 --score sigmoid --bias --expert-groups 4 --top-groups 2 --group-score "
               "best --no-normalize --scale 2.5"},
        Sample{"MoePermute", "moe-permute", "40x3x64", "--rows 130 --weights"},
        Sample{"MoeUnpermute", "moe-unpermute", "40x3x64", "--rows 100 --weights --tail untouched"},
        Sample{"GatedActivationFp8", "gated-activation", "40x130",
               "--activation gelu_tanh --fp8 e5m2 --block 1x128 --transposed-block 1x128"}),
    [](const testing::TestParamInfo<Sample>& sample) { return std::string(sample.param.name); });

TEST(ToolGatedMlp, SetsFp8BesideItsUnfusedChain) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const Outcome outcome = run_tool(
      "bench gated-mlp --shape 64x96x64 --down --device cpu --threads 2 --warmup 1 --iters 5 -o " +
      path);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "x the unfused chain (forward ")) << outcome.out;
  const Fields row = read_results(path).records.at(0);
  EXPECT_EQ(row.at("Check"), "PASS");
  EXPECT_EQ(row.at("Same Bits"), "yes");
  EXPECT_EQ(row.at("F"), "96");
  EXPECT_EQ(row.at("Options"), "--down --activation silu");
  for (const std::string part : {"Forward", "Backward"}) {
    const std::string launches = part + " Launches";
    const std::string bytes = part + " Bytes";
    EXPECT_GT(number_in(row, launches), 0);
    EXPECT_LT(number_in(row, launches), number_in(row, "Unfused " + launches));
    EXPECT_LT(number_in(row, bytes), number_in(row, "Unfused " + bytes));
    EXPECT_GT(number_in(row, part + " Ratio"), 0);
    EXPECT_GT(number_in(row, "Unfused " + part + " Time (ms)"), 0);
  }
  const double operations = 18.0 * 64 * 96 * 64;
  EXPECT_NEAR(number_in(row, "Combined Step TFLOPS") /
                  (operations / number_in(row, "Combined Step Time (ms)") / 1e9),
              1, 1e-4);
  const Outcome summary = run_tool("summarize " + folder.path().string());
  EXPECT_TRUE(has_text(summary.out, "gated-mlp")) << summary.out << summary.err;
}

TEST(ToolGatedMlp, TimesUnquantisedLayersWithoutAnUnfusedChain) {
  const BenchRun run("gated-mlp --dtype bf16 --shape 16x24x32 --device cpu --warmup 1 --iters 3");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  const Fields& row = run.row();
  EXPECT_EQ(row.at("Same Bits"), "");
  EXPECT_EQ(row.at("Combined Ratio"), "");
  EXPECT_GT(number_in(row, "Forward Launches"), 1);
  EXPECT_GT(number_in(row, "Combined Step TFLOPS"), 0);
}

TEST(ToolGroupedGemm, CountsTheRowsOfGroups) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  for (const char* way : {"--dtype fp8", "--dtype fp8 --prequantized --wgrad-blocks 2d",
                          "--dtype fp8 --weights-quantized", "--dtype bf16"}) {
    const Outcome outcome = run_tool(fmt::format(
        "bench grouped-gemm {} --group-sizes 0,30,1,9 --shape 50x24x32 --device cpu --warmup 1 "
        "--iters 3 --fresh -o {}",
        way, path));
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Fields row = read_results(path).records.at(0);
    EXPECT_EQ(row.at("Check"), "PASS");
    EXPECT_EQ(row.at("Operator"), "grouped-gemm");
    EXPECT_EQ(row.at("Group Sizes"), "0,30,1,9");
    EXPECT_EQ(row.at("B"), "4");
    EXPECT_EQ(row.at("M"), "40");
    EXPECT_NEAR(number_in(row, "Combined Step TFLOPS") /
                    (6.0 * 40 * 24 * 32 / number_in(row, "Combined Step Time (ms)") / 1e9),
                1, 1e-4);
    const Outcome summary = run_tool("summarize " + folder.path().string());
    EXPECT_TRUE(has_text(summary.out, "grouped-gemm")) << summary.out << summary.err;
  }
}

TEST(ToolGroupedGemm, TakesTheExpertsOfModels) {
  const Folder folder;
  const std::string config = folder.file("config.json");
  write(config, R"({"hidden_size": 64, "num_attention_heads": 4, "num_experts": 4,
                         "moe_intermediate_size": 32, "num_experts_per_tok": 2})");
  const Outcome outcome = run_tool(
      fmt::format("check grouped-gemm --model {} --expert-parallel 2 --tokens-per-group 16 "
                  "--group-sizes skewed --device cpu",
                  config));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "GateUP 32x64x64")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "Down 32x64x32")) << outcome.out;
}

TEST(ToolGroupedGemm, RefusesModelsAndOptionsThatDoNotFit) {
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run_tool("bench grouped-gemm " + arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(has_text(outcome.err, message)) << outcome.err;
  };
  refused("--model GPT-2", "no model with experts is called GPT-2; there are DeepSeek-V3, ");
  refused("--suite grouped288 --groups 3", "--groups does not go with them");
  refused("--suite grouped288 --shape 8x8x8", "--shape does not go with them");
  refused("--suite grouped288 --tokens-per-group 7", "together leave no case of grouped288");
  refused("--tokens-per-group 512", "go with --suite or --model");
}

TEST(ToolLinearCrossEntropy, TimesTheLossAndTheStep) {
  for (const std::string options : {"", " --dtype bf16 --reduction none"}) {
    const BenchRun run("linear-cross-entropy --shape 16x40x32 --device cpu --warmup 1 --iters 3" +
                       options);
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    const Fields& row = run.row();
    EXPECT_EQ(row.at("Check"), "PASS");
    EXPECT_EQ(row.at("V"), "40");
    EXPECT_GT(number_in(row, "Workspace Bytes"), 0);
    const double volume = 16.0 * 40 * 32;
    for (const auto& [part, operations] :
         {std::pair("Loss", 2 * volume), std::pair("Combined Step", 6 * volume)}) {
      const double seconds = number_in(row, std::string(part) + " Time (ms)") / 1e3;
      EXPECT_NEAR(number_in(row, std::string(part) + " TFLOPS") / (operations / seconds / 1e12), 1,
                  1e-4);
    }
  }
}

TEST(ToolAdamW, TimesAStepBesideACopy) {
  for (const auto& [options, bytes] :
       {std::pair<std::string, int>("", 14), {" --moments f32 --master", 28}}) {
    const BenchRun run("adamw --shape 24x40 --device cpu --warmup 1 --iters 3" + options);
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    const Fields& row = run.row();
    EXPECT_EQ(row.at("Check"), "PASS");
    EXPECT_EQ(row.at("Shape"), "24x40");
    EXPECT_EQ(number_in(row, "Bytes"), 24 * 40 * bytes);
    EXPECT_GT(number_in(row, "Copy Ratio"), 0);
    EXPECT_NEAR(
        number_in(row, "GB/s") * number_in(row, "Time (ms)") * 1e6 / number_in(row, "Bytes"), 1,
        1e-4);
  }
}

TEST(ToolAdamW, CountsTheFp8Copies) {
  const BenchRun run(
      "adamw --shape 128x256 --fp8 e5m2 --block 128x128 --transposed-block 128x128 --device cpu "
      "--warmup 1 --iters 3");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  EXPECT_EQ(run.row().at("Check"), "PASS");
  // 14 bytes and one for each copy, and their scales: two blocks
  EXPECT_EQ(number_in(run.row(), "Bytes"), 128 * 256 * 16 + 2 * 2 * 4);
}

TEST(ToolDequantize, IsTimedBesideACopy) {
  for (const auto& [options, bytes] :
       {std::pair<std::string, int>("", 64 * 256 * 3 + 64 * 2 * 4),
        {" --block 1x32 --out f32", 64 * 256 * 5 + 64 * 8},
        {" --format e5m2 --block allxall --out f16", 64 * 256 * 3 + 4}}) {
    const BenchRun run("dequantize --shape 64x256 --device cpu --warmup 1 --iters 3" + options);
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    EXPECT_EQ(run.row().at("Check"), "PASS");
    EXPECT_EQ(run.row().at("Dtype"), has_text(options, "e5m2") ? "e5m2" : "e4m3");
    EXPECT_EQ(number_in(run.row(), "Bytes"), bytes) << options;
    EXPECT_GT(number_in(run.row(), "Copy Ratio"), 0);
  }
}

TEST(ToolRepack, IsTimedBesideACopy) {
  for (const std::string options : {"", " --transposed-source"}) {
    const BenchRun run("repack --shape 100x250 --block 32x32 --device cpu --warmup 1 --iters 3" +
                       options);
    ASSERT_EQ(run.outcome.status, 0) << run.text();
    EXPECT_EQ(run.row().at("Check"), "PASS");
    EXPECT_EQ(run.row().at("Options"), "--format e4m3 --block 32x32" + options);
    EXPECT_EQ(number_in(run.row(), "Bytes"), 2 * (100 * 250 + 4 * 8));
    EXPECT_GT(number_in(run.row(), "Copy Ratio"), 0);
  }
}

TEST(ToolMoeMaps, AreTimedBesideACopy) {
  const BenchRun run(
      "moe-maps --shape 24x2 --experts 5 --first-expert 1 --capacity 9 --device cpu --warmup 1 "
      "--iters 3");
  ASSERT_EQ(run.outcome.status, 0) << run.text();
  const Fields& row = run.row();
  EXPECT_EQ(row.at("Check"), "PASS");
  EXPECT_EQ(row.at("Dtype"), "i32");
  EXPECT_EQ(row.at("Options"), "--experts 5 --first-expert 1 --groups 4 --rows 48 --capacity 9");
  const std::int64_t words = 3 * 48 + 4 + group_table_words(4, 48) + kMoeMapsStatusWords;
  EXPECT_EQ(number_in(row, "Bytes"), 4.0 * static_cast<double>(words));
  EXPECT_GT(number_in(row, "Copy Ratio"), 0);
}

TEST(ToolMemoryOps, HaveCasesOfTheirOwnWhereNoShapeIsGiven) {
  const std::pair<const char*, const char*> counts[] = {
      {"rms-norm", "5"},  {"rope", "5"},        {"rms-norm-rope", "6"}, {"gated-activation", "6"},
      {"moe-route", "4"}, {"moe-permute", "4"}, {"moe-unpermute", "4"}};
  for (const auto& [op, count] : counts) {
    const Outcome outcome =
        run_tool(std::string("bench ") + op + " --device cpu --max-seconds 0 --dtype f16");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const std::string wanted = std::string(count) + " of " + count + " cases not started";
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << op << outcome.out;
  }
}

// The problem that `octet check` reports for these options.
std::string checked(const std::string& arguments) {
  const Outcome outcome = run_tool("check " + arguments + " --device cpu");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  return outcome.out.substr(outcome.out.find("PASS"));
}

TEST(ToolMemoryOps, WriteFp8BothWaysUnlessACopyIsToldOtherwise) {
  const std::string norm = "rms-norm --shape 4x256 --fp8 e4m3";
  const auto blocks = [](const std::string& block, const std::string& transposed) {
    return " --block " + block + " --transposed-block " + transposed + " ";
  };
  EXPECT_TRUE(has_text(checked(norm), blocks("1x128", "1x128")));
  EXPECT_TRUE(has_text(checked(norm + " --block none"), blocks("none", "1x128")));
  EXPECT_TRUE(has_text(checked(norm + " --block 128x128"), blocks("128x128", "1x128")));
  EXPECT_TRUE(has_text(checked(norm + " --transposed-block none"), blocks("1x128", "none")));
  EXPECT_TRUE(has_text(run_tool("check rms-norm --help", "COLUMNS=100").out,
                       "[default: 1x128; none beside 1xall, allx1, allxall and mx blocks]"));
  // No kernel writes them and blocks of 128 in one pass.
  for (const char* block : {"1xall", "allxall", "1x32"}) {
    EXPECT_TRUE(has_text(checked(norm + " --block " + block), blocks(block, "none"))) << block;
  }
  EXPECT_TRUE(has_text(checked(norm + " --block 1xall --transposed-block 1x128"),
                       blocks("1xall", "1x128")));
}

TEST(ToolQuantize, MakesOnlyTheNamedCopy) {
  const std::string cast = "quantize --shape 4x256";
  const std::string row_wise = checked(cast + " --block 128x128");
  EXPECT_TRUE(has_text(row_wise, " --block 128x128 --device")) << row_wise;
  const std::string transposed = checked(cast + " --transposed-block 1x128");
  EXPECT_TRUE(has_text(transposed, " --block none --transposed-block 1x128 ")) << transposed;
}

TEST(ToolMemoryOps, TheirResultsAreSummarizedComparedAndReported) {
  const Folder folder;
  const std::string quick = " --device cpu --threads 1 --warmup 1 --iters 5 -o ";
  for (const std::string op : {"rms-norm --shape 8x64", "gated-activation --shape 8x64"}) {
    const std::string name = op.substr(0, op.find(' '));
    ASSERT_EQ(run_tool("bench " + op + quick + folder.file(name + ".csv")).status, 0) << op;
  }
  const Outcome summary = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_EQ(summary.err, "");
  for (const char* wanted : {"rms-norm", "gated-activation", "silu", "B/s"}) {
    EXPECT_TRUE(has_text(summary.out, wanted)) << wanted << summary.out;
  }
  const std::string norm = folder.file("rms-norm.csv");
  const Outcome same = run_tool("compare " + norm + " " + norm);
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  const Outcome others = run_tool("compare " + norm + " " + folder.file("gated-activation.csv"));
  EXPECT_EQ(others.status, 2) << others.out;
  const std::string page = folder.file("report.html");
  const Outcome report = run_tool("report " + folder.path().string() + " -o " + page);
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_TRUE(has_text(read_file(page), "\"op\":\"gated-activation\""));
  EXPECT_TRUE(has_text(read_file(page), "copy of the same bytes"));
}

std::string refusal_of(const std::string& text) {
  try {
    parse_shape_cases(text, "x.csv", "RxC", false);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ShapeCases, AreThoseOfTheDevice) {
  const std::string text = "name,shape,cpu_shape,head-dim\nA b,8x16,1x2,64\nC d,4x4,,\n";
  const auto on_cpu = parse_shape_cases(text, "x.csv", "RxC", false);
  ASSERT_EQ(on_cpu.size(), 1u);
  EXPECT_EQ(on_cpu[0].name, "A b");
  EXPECT_EQ(on_cpu[0].extents, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(on_cpu[0].options.at("head-dim"), "64");
  const auto on_gpu = parse_shape_cases(text, "x.csv", "RxC", true);
  ASSERT_EQ(on_gpu.size(), 2u);
  EXPECT_TRUE(on_gpu[1].options.empty());
}

TEST(ShapeCases, AreRefusedWithRowAndReason) {
  EXPECT_EQ(refusal_of("a,b\n"), "x.csv: the first row must begin with name,shape,cpu_shape");
  EXPECT_EQ(refusal_of("name,shape,cpu_shape\nA,1x1\n"),
            "x.csv: row 2 has 2 fields, the first row has 3");
  EXPECT_EQ(
      refusal_of("name,shape,cpu_shape\nA,1x1,1x1x1\n"),
      "x.csv: row 2: a shape must be RxC, two whole numbers between 1 and 9223372036854775807, "
      "got \"1x1x1\"");
}

}  // namespace
}  // namespace octet::tool
