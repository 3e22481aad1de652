// octet summarize: one table over a folder, and refusals that all readers of results share.
#include "result_files.hpp"

#include <algorithm>
#include <regex>

namespace octet::tool {
namespace {

// The cells of the first line that begins with `start`, separated by one space.
std::string line_of(const std::string& text, const std::string& start) {
  const std::string squeezed = std::regex_replace(text, std::regex(" +"), " ");
  const std::size_t begin = squeezed.find("\n" + start);
  if (begin == std::string::npos) return "";
  return squeezed.substr(begin + 1, squeezed.find('\n', begin + 1) - begin - 1);
}

TEST(ToolSummarize, CountsAndAveragesPerOperatorAndModel) {
  const Folder folder;
  write(folder.file("a.csv"),
        gemm_csv({{"Model-A x", 1, 100}, {"Model-A y", 2, 400}, {"Model-B x", 3, 800}}));
  write(folder.file("deep/b.csv"),
        gemm_csv({{"Model-B y", 4, 0, "FAIL"}, {"Model-B z", 5, 0, "ERROR"}}));
  write(folder.file("q.csv"), quantize_csv({1000, 4000}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  // 317.5 is the cube root of 100 * 400 * 800; forward is 1.1 and backward 0.9 times that.
  EXPECT_EQ(line_of(outcome.out, "gemm"),
            "gemm fp8 Test GPU cuda_test 5 3 1 1 349.2 285.7 317.5 TFLOPS");
  EXPECT_EQ(line_of(outcome.out, " Model-A"), " Model-A 2 2 0 0 220 180 200 TFLOPS");
  EXPECT_EQ(line_of(outcome.out, " Model-B"), " Model-B 3 1 1 1 880 720 800 TFLOPS");
  EXPECT_EQ(line_of(outcome.out, "quantize"),
            "quantize bf16 block=1x128 Test GPU cuda_test 2 2 0 0 - - 2 TB/s");
}

TEST(ToolSummarize, OptionsWithTheSameValueAreOtherProblems) {
  const Folder folder;
  GemmLine wide_gradient{"Model-A x", 1, 100};
  wide_gradient.options = " --dw f32";
  GemmLine wide_input{"Model-A x", 1, 400};
  wide_input.options = " --input f32";
  write(folder.file("a.csv"), gemm_csv({wide_gradient, wide_input}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm fp8 dw"),
            "gemm fp8 dw=f32 Test GPU cuda_test 1 1 0 0 110 90 100 TFLOPS");
  EXPECT_EQ(line_of(outcome.out, "gemm fp8 input"),
            "gemm fp8 input=f32 Test GPU cuda_test 1 1 0 0 440 360 400 TFLOPS");
}

TEST(ToolSummarize, NothingIsAveragedWhereAllFailed) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{"Model-A x", 1, 0, "FAIL"}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm"), "gemm fp8 Test GPU cuda_test 1 0 1 0 - - - TFLOPS");
}

TEST(ToolSummarize, OtherFilesAreNamedAndSkipped) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{}}));
  write(folder.file("cases.csv"), "test_id,model,op,mbs,M,N,K\n1,A,b,1,2,3,4\n");
  write(folder.file("notes.txt"), "hello\n");
  write(folder.file("none.csv"), kGemmColumns);
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "ignored cases.csv (its columns are not those of octet bench)\n"
            "ignored none.csv (no rows)\n"
            "ignored notes.txt (not a CSV)\n");
}

TEST(ToolSummarize, ReadsThePublishedResults) {
  const Outcome outcome = run_tool("summarize " + std::string(OCTET_SOURCE_DIR) + "/results");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "Llama-3.1-405B")) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "deep_gemm")) << outcome.out;
}

struct BrokenFile {
  const char* name;
  std::string text;
  const char* wanted;
};

std::string with(std::string text, const std::string& part, const std::string& other) {
  return text.replace(text.find(part), part.size(), other);
}

class ResultReader : public testing::TestWithParam<BrokenFile> {};

TEST_P(ResultReader, RefusesItWithOneLineAndWritesNothing) {
  const Folder folder;
  write(folder.file("in/good.csv"), gemm_csv({{}}));
  const std::string path = write(folder.file("in/x.csv"), GetParam().text);
  const std::string page = folder.file("report.html");
  for (const std::string& command :
       {"summarize " + folder.file("in"), "report " + folder.file("in") + " -o " + page,
        "compare " + path + " " + path, "compare " + folder.file("in") + " " + folder.file("in")}) {
    const Outcome outcome = run_tool(command);
    EXPECT_EQ(outcome.status, 2) << command << outcome.err;
    EXPECT_EQ(outcome.out, "") << command;
    EXPECT_TRUE(has_text(outcome.err, path + ": ")) << outcome.err;
    EXPECT_TRUE(has_text(outcome.err, GetParam().wanted)) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(page));
}

const std::string kGood = gemm_csv({{}, {"Model-A mlp", 2}});
const std::string kGoodNorms = memory_csv({{"rms-norm", "8x16"}, {"rms-norm", "9x17"}});

INSTANTIATE_TEST_SUITE_P(
    , ResultReader,
    testing::Values(
        BrokenFile{"Empty", "", "is empty"},
        BrokenFile{"MissingColumns",
                   with(with(kGood, "Check", "Chck"), "Combined Step TFLOPS", "Other"),
                   "these columns are missing: Check, Combined Step TFLOPS"},
        BrokenFile{"CutInALine", kGood.substr(0, kGood.size() - 100), "fields, wanted the 25"},
        BrokenFile{"CutInTheLastField", kGood.substr(0, kGood.size() - 5), "cut short"},
        BrokenFile{"UnclosedQuote", kGood + "\"1,2", "not CSV"},
        BrokenFile{"UnknownCheck", with(kGood, "PASS", "MAYBE"), "wanted PASS, FAIL or ERROR"},
        BrokenFile{"PassWithoutATime", with(kGood, ",10,100,", ",10,,"),
                   "row 2: Combined Step TFLOPS is \"\", wanted a number above 0"},
        BrokenFile{"WordForARate", with(kGood, ",10,100,", ",10,fast,"), "\"fast\""},
        BrokenFile{"NegativeRate", with(kGood, ",10,100,", ",10,-100,"), "\"-100\""},
        BrokenFile{"WordForASpread", with(kGood, "cuda_test,1,", "cuda_test,-abc,"),
                   "row 2: Spread (%) is \"-abc\", wanted a number of at least 0, or nothing"},
        BrokenFile{"NegativeSpread", with(kGood, "cuda_test,1,", "cuda_test,-1,"), "\"-1\""},
        BrokenFile{"NoRows", with(kGood, ",256,1024,512,", ",0,1024,512,"),
                   "row 2: M is \"0\", wanted a whole number of at least 1"},
        BrokenFile{"ShapeInAnExtent", with(kGood, ",256,1024,512,", ",256,1x2,512,"),
                   "row 2: N is \"1x2\", wanted a whole number"},
        BrokenFile{"ShapeThatCannotBe", with(kGoodNorms, ",9x17,", ",0x-1,"),
                   "row 3: Shape is \"0x-1\", wanted whole numbers of at least 1 with x between"},
        BrokenFile{"TwoOperators", memory_csv({{"rope", "1x2x128"}, {"rms-norm", "8x16"}}),
                   "row 3: Operator is \"rms-norm\", wanted rope as in row 2"}),
    [](const testing::TestParamInfo<BrokenFile>& file) { return std::string(file.param.name); });

TEST(ToolSummarize, FoldersWithoutResultsAreRefused) {
  const Folder folder;
  std::filesystem::create_directories(folder.file("empty"));
  write(folder.file("foreign/x.csv"), "a,b\n1,2\n");
  const std::string page = folder.file("report.html");
  for (const std::string name : {"empty", "foreign", "none", "foreign/x.csv"}) {
    for (const std::string command : {"summarize ", "report "}) {
      const Outcome outcome =
          run_tool(command + folder.file(name) + (command == "report " ? " -o " + page : ""));
      EXPECT_EQ(outcome.status, 2) << command << name;
      EXPECT_TRUE(has_text(outcome.err, folder.file(name) + ": ")) << outcome.err;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(page));
  const std::string foreign = folder.file("foreign/x.csv");
  const Outcome outcome = run_tool("compare " + foreign + " " + foreign);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has_text(outcome.err, "not those of octet bench")) << outcome.err;
}

}  // namespace
}  // namespace octet::tool
