// octet bench and octet check of attention, as a user runs them.
#include "result_files.hpp"
#include "results.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

const bench::Row kFirstColumns = columns(
    "TestID,Platform,GPU,Case,Operator,Dtype,Batch,SeqLen,SeqLenKV,num_head_q,num_head_kv,"
    "head_dim_qk,head_dim_v,Causal,Window,Layout,Deterministic,Backend,Check,Forward Time (ms),"
    "Forward TFLOPS,Backward Time (ms),Backward TFLOPS,Combined Step Time (ms),Combined Step "
    "TFLOPS");

constexpr const char* kQuick = " --device cpu --threads 2 --warmup 1 --iters 3";

struct Sample {
  const char* name;
  const char* options;
  const char* causal;
  const char* window;
  const char* layout;
  const char* others;    // the column Options
  double forward_pairs;  // of query and key, over all sequences
};

class ToolAttention : public testing::TestWithParam<Sample> {};

TEST_P(ToolAttention, IsCheckedAndTimed) {
  const Sample& sample = GetParam();
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const Outcome outcome =
      run_tool(fmt::format("bench attention {} --heads 4x2 --head-dim 16x8 --seed 3{} -o {}",
                           sample.options, kQuick, path));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "1 PASS, 0 FAIL, 0 ERROR")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "forward + backward (geometric mean of 1 case)"));

  const Results results = read_results(path);
  expect_first_columns(results.header, kFirstColumns);
  const Fields& row = results.records.at(0);
  EXPECT_EQ(row.at("Operator"), "attention");
  EXPECT_EQ(row.at("Check"), "PASS");
  EXPECT_EQ(row.at("num_head_q") + "x" + row.at("num_head_kv"), "4x2");
  EXPECT_EQ(row.at("head_dim_qk") + "x" + row.at("head_dim_v"), "16x8");
  EXPECT_EQ(row.at("Causal"), sample.causal);
  EXPECT_EQ(row.at("Window"), sample.window);
  EXPECT_EQ(row.at("Layout"), sample.layout);
  EXPECT_EQ(row.at("Options"), sample.others);
  EXPECT_EQ(row.at("Deterministic"), "True");
  EXPECT_GT(number_in(row, "Forward SNR (dB)"), 50);
  const double forward = 2 * sample.forward_pairs * 4 * (16 + 8);
  for (const auto& [part, share] :
       {std::pair("Forward", 1.0), std::pair("Backward", 2.5), std::pair("Combined Step", 3.5)}) {
    const double seconds = number_in(row, std::string(part) + " Time (ms)") * 1e-3;
    EXPECT_NEAR(number_in(row, std::string(part) + " TFLOPS") * seconds * 1e12 / (share * forward),
                1, 1e-4)
        << part;
  }

  // Its command repeats it.
  const std::string command = row.at("Command");
  ASSERT_EQ(command.rfind("octet bench attention ", 0), 0u) << command;
  const std::string again = folder.file("again.csv");
  ASSERT_EQ(run_tool(command.substr(6) + " -o " + again).status, 0) << command;
  EXPECT_EQ(read_results(again).records.at(0).at("Command"), command);
}

INSTANTIATE_TEST_SUITE_P(
    , ToolAttention,
    testing::Values(
        Sample{"Causal", "--batch 2 --seq 40 --causal", "True", "", "bshd", "", 2 * 40 * 40 / 2},
        Sample{"Window", "--seq 40x60 --window 7,3 --align top-left --sink --layout bhsd", "False",
               "7,3", "bhsd", "--align top-left --sink", 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 * 33},
        Sample{"Packed", "--batch 2 --seq 40 --layout packed --scale 0.5 --out f32", "False", "",
               "packed", "--out f32 --scale 0.5", 2 * 40 * 40},
        Sample{"Lengths", "--lengths 40,0,20x30 --offsets i64", "False", "", "thd",
               "--lengths 40,0,20x30 --offsets i64 --total 60x70", 40 * 40 + 20 * 30}),
    [](const testing::TestParamInfo<Sample>& sample) { return std::string(sample.param.name); });

TEST(ToolAttentionCases, AreThoseOfTheSuiteAndOfModels) {
  const auto planned = [](const std::string& options, const std::string& count) {
    const Outcome outcome =
        run_tool("bench attention " + options + " --device cpu --max-seconds 0");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(has_text(outcome.out, count + " of " + count + " cases not started"))
        << options << outcome.out;
  };
  planned("", "5");
  planned("--suite attention78", "78");
  planned("--suite attention78 --causal --batch 2", "13");
  planned("--suite attention78 --causal --lengths skew", "39");
  planned("--model llama-3.1-8b --model Kimi-K2 --batch 1 --batch 4", "8");
}

TEST(ToolAttentionCases, FollowFromAConfig) {
  const Folder folder;
  const std::string config = folder.file("config.json");
  write(config, R"({"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "intermediate_size": 128, "max_position_embeddings": 48})");
  const Outcome outcome = run_tool("check attention --model " + config + " --batch 2 --device cpu");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "2x48x48x4x2x16x16")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "2 PASS, 0 FAIL")) << outcome.out;
}

TEST(ToolAttentionCases, AreRefusedWithTheReason) {
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run_tool("bench attention --device cpu " + arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(has_text(outcome.err, message)) << outcome.err;
  };
  refused("--seq 8", "--heads is missing");
  refused("--heads 8", "--seq is missing");
  refused("--seq 8y --heads 8",
          "--seq must be a whole number of at least 1, or two of them as AxB");
  refused("--seq 8 --heads 3x2", "heads_q must be a multiple of heads_kv = 2, got 3");
  refused("--seq 8 --heads 2 --window 3", "--window must be LEFT,RIGHT");
  refused("--seq 8 --heads 2 --window 3,4 --causal", "--window must be LEFT,0, got \"3,4\"");
  refused("--seq 8 --heads 2 --scale x", "--scale must be a number, got \"x\"");
  refused("--seq 8 --heads 2 --lengths even", "--lengths must be uniform, mild, skew, longtail");
  refused("--seq 8 --heads 2 --lengths 9", "the longest may be 8x8, got 9x9");
  refused("--seq 8 --heads 2 --lengths 8,8 --batch 3", "2 were given for a batch of 3");
  refused("--heads 2 --lengths 8,8 --total 15", "16 queries together, the problem 15 rows");
  refused("--heads 2 --lengths 8 --layout bhsd", "it does not go with --lengths");
  refused("--seq 8x9 --heads 2 --layout packed", "must have as many queries as keys");
  refused("--suite attention78 --heads 2", "--heads does not go with them");
  refused("--suite attention78 --model Kimi-K2", "--model does not go with it");
  refused("--suite attention78 --batch 3", "--batch leaves no case of suite attention78");
  refused("--model GPT-2", "no model is called \"GPT-2\"");
  refused("--seq 8 --heads 2 --baseline cudnn",
          "--baseline cudnn runs on a GPU, attention on cpu; give --device");
  refused("--seq 8 --heads 2 --deterministic-baseline",
          "--deterministic-baseline goes with --baseline");
  refused("--seq 8 --heads 2 --backend cudnn", "does not take this problem: the problem is on cpu");
}

TEST(ToolAttentionResults, ItsResultsAreSummarizedComparedAndReported) {
  const Folder folder;
  const std::string path = folder.file("attention.csv");
  ASSERT_EQ(run_tool(fmt::format("bench attention --seq 24 --heads 2 --head-dim 16{} -o {}", kQuick,
                                 path))
                .status,
            0);
  const Outcome summary = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_EQ(summary.err, "");
  EXPECT_TRUE(has_text(summary.out, "attention")) << summary.out;
  const Outcome same = run_tool("compare " + path + " " + path);
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  const std::string page = folder.file("report.html");
  EXPECT_EQ(run_tool("report " + folder.path().string() + " -o " + page).status, 0);
  EXPECT_TRUE(has_text(read_file(page), "\"op\":\"attention\""));
}

TEST(ToolAttentionResults, IsInTheSupportTable) {
  const Outcome outcome = run_tool("ops");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "attention")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "heads of 192/128")) << outcome.out;
}

}  // namespace
}  // namespace octet::tool
