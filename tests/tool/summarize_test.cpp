// octet summarize: octet's rates and octet beside its peers, and refusals that all readers of results
// share.
#include "result_files.hpp"

#include "bench/report/text_table.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

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
            "gemm fp8 317.5 TFLOPS 349.2 285.7 - 3 PASS, 1 FAIL, 1 ERROR");
  EXPECT_EQ(line_of(outcome.out, " Model-A"), " Model-A 200.0 TFLOPS 220.0 180.0 - 2 PASS");
  EXPECT_EQ(line_of(outcome.out, " Model-B"),
            " Model-B 800.0 TFLOPS 880.0 720.0 - 1 PASS, 1 FAIL, 1 ERROR");
  // Rates of 1 and 4 TB/s beside a copy of 5 TB/s.
  EXPECT_EQ(line_of(outcome.out, "quantize"),
            "quantize bf16 block=1x128 2.000 TB/s - - 40.0 % 2 PASS");
  EXPECT_EQ(outcome.out.rfind("Test GPU: 7 rows in 3 files\n", 0), 0u) << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "\noctet: 5 PASS, 1 FAIL, 1 ERROR\n")) << outcome.out;
}

TEST(ToolSummarize, AModelWithOneShapeHasNoMean) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{"Model-A x", 1, 100}, {"Model-B x", 2, 400}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_FALSE(has_text(outcome.out, "Model-")) << outcome.out;
}

TEST(ToolSummarize, UnitsFitTheRates) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{"Model-A x", 1, 0.05}, {"Model-A y", 2, 0.2}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm"), "gemm fp8 100.0 GFLOPS 110.0 90.00 2 PASS");
}

// The peer is faster on average over its own shapes, and slower on those that both passed.
TEST(ToolSummarize, ComparesPeersOnlyOverShapesBothPassed) {
  const Folder folder;
  write(folder.file("peers.csv"), peers_csv({{"octet", 16, 100},
                                             {"rival", 16, 0, "ERROR"},
                                             {"octet", 64, 200},
                                             {"rival", 64, 0, "FAIL"},
                                             {"octet", 4096, 1000},
                                             {"rival", 4096, 500},
                                             {"octet", 8192, 1000},
                                             {"rival", 8192, 800},
                                             {"octet", 9000, 0, "FAIL"},
                                             {"rival", 9000, 900}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "octet beside its peers\n")) << outcome.out;
  // The geometric mean of 2 and 1.25.
  EXPECT_EQ(line_of(outcome.out, "gemm"),
            "gemm fp8 forward rival 2 1.581x 1.250x 2.000x 0.0 % 1 FAIL, 1 ERROR");
  EXPECT_FALSE(has_text(outcome.out, "TFLOPS")) << "no mean of one side only\n" << outcome.out;
  EXPECT_TRUE(has_text(outcome.out, "octet: 4 PASS, 1 FAIL; peers: 3 PASS, 1 FAIL, 1 ERROR\n"))
      << outcome.out;
}

TEST(ToolSummarize, PairsOnlyTheSameProductInTheSameFile) {
  const Folder folder;
  write(folder.file("a.csv"), peers_csv({{"octet", 16, 100},
                                         {"octet", 16, 300, "PASS", "dgrad"},
                                         {"rival", 16, 100, "PASS", "dgrad"}}));
  write(folder.file("b.csv"), peers_csv({{"rival", 16, 10}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm dgrad"), "gemm dgrad rival 1 3.000x 3.000x 3.000x 0.0 % -");
  EXPECT_EQ(line_of(outcome.out, "gemm forward"), "gemm forward rival 0 - - - - -");
}

// Clocks that drift between two libraries make the quotient of their medians another one.
TEST(ToolSummarize, TakesTheRatioThatWasPairedOverRounds) {
  const Folder folder;
  write(folder.file("peers.csv"), peers_csv({{"octet", 16, 100, "PASS", "forward", "", "1.0000"},
                                             {"rival", 16, 200, "PASS", "forward", "", "0.9600"},
                                             {"octet", 32, 100, "PASS", "forward", "", "1.0000"},
                                             {"rival", 32, 80}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  // 1.25 is that of the rates, where there is none of rounds; one of two is below 0.97.
  EXPECT_EQ(line_of(outcome.out, "gemm"), "gemm fp8 forward rival 2 1.095x 0.960x 1.250x 50.0 % -");
}

// A shape that only one peer passed is beside that one.
TEST(ToolSummarize, ComparesWithTheBetterOfSeveralPeers) {
  const Folder folder;
  const std::string path = write(folder.file("peers.csv"), peers_csv({{"octet", 16, 100},
                                                                      {"rival", 16, 50},
                                                                      {"slow", 16, 25},
                                                                      {"octet", 32, 100},
                                                                      {"rival", 32, 25},
                                                                      {"slow", 32, 200},
                                                                      {"octet", 64, 100},
                                                                      {"rival", 64, 100},
                                                                      {"slow", 64, 0, "ERROR"},
                                                                      {"device copy", 64, 900}}));
  const Outcome outcome = run_tool("summarize --wide " + path);
  const std::string squeezed = std::regex_replace(outcome.out, std::regex(" +"), " ");
  // 2, 0.5 and 1.
  EXPECT_TRUE(
      has_text(squeezed, " better of rival, slow Test GPU 3 1.000x 0.500x 2.000x 33.3 % -\n"))
      << outcome.out;
  write(path,
        peers_csv({{"octet", 16, 100}, {"rival", 16, 50}, {"octet", 32, 100}, {"slow", 32, 50}}));
  EXPECT_FALSE(has_text(run_tool("summarize " + path).out, "better of")) << "no shape has both";
  const std::string build = "device sources abc";
  write(path, peers_csv({{"octet", 16, 100},
                         {"rival", 16, 50},
                         {"before", 16, 99, "PASS", "forward", "", "", build}}));
  EXPECT_FALSE(has_text(run_tool("summarize " + path).out, "better of")) << "a build is no peer";
}

TEST(ToolSummarize, TheRatiosOfDeepGemmAreThoseOfItsRounds) {
  const Outcome outcome =
      run_tool("summarize " + std::string(OCTET_SOURCE_DIR) + "/results/h200/peers12.csv");
  EXPECT_EQ(line_of(outcome.out, "gemm forward deep_gemm"),
            "gemm forward deep_gemm 12 1.006x 0.985x 1.028x 0.0 % -");
  EXPECT_EQ(line_of(outcome.out, "gemm forward better of"),
            "gemm forward better of cublaslt, deep_gemm 12 1.006x 0.985x 1.028x 0.0 % -");
}

// Group sizes and masks tell rows of one shape apart.
TEST(ToolSummarize, PairsLayersOfThePeersFiles) {
  const Folder folder;
  const std::string grouped =
      "Groups,M,N,K,Group Sizes,Dtype,Product,Library,Version,Check,Time (ms),TFLOPS,Ratio,Spread "
      "(%),GPU,Commit,Note,Command\n";
  const auto product = [](const char* spread, const char* library, int rate) {
    return fmt::format(
        "8,64,64,64,{},fp8,forward,{},,PASS,1,{},,0.1,Test GPU,abc,,tools/peers.py --op "
        "grouped-gemm --shape 8x64x64x64 --group-sizes {}\n",
        spread, library, rate, spread);
  };
  write(folder.file("grouped.csv"),
        grouped + product("balanced", "octet", 100) + product("balanced", "rival", 50) +
            product("skewed", "octet", 100) + product("skewed", "rival", 25));
  write(folder.file("attention.csv"),
        "Batch,SeqLen,num_head_q,num_head_kv,head_dim_qk,head_dim_v,Mask,Dtype,Product,Library,"
        "Version,Check,Time (ms),TFLOPS,Ratio,Spread (%),GPU,Commit,Note,Command\n"
        "1,64,4,2,64,64,causal,bf16,attention forward,octet,,PASS,1,300,,0.1,Test GPU,abc,,"
        "tools/peers.py --op attention --shape 1x64x4x2x64x64 --mask causal\n"
        "1,64,4,2,64,64,causal,bf16,attention forward,rival,,PASS,1,100,,0.1,Test GPU,abc,,"
        "tools/peers.py --op attention --shape 1x64x4x2x64x64 --mask causal\n");
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, "octet: 3 PASS; peers: 3 PASS\n")) << outcome.out;
  EXPECT_TRUE(has_text(line_of(outcome.out, "grouped-gemm"), "2.000x")) << outcome.out;
  EXPECT_TRUE(has_text(line_of(outcome.out, "attention"), "3.000x")) << outcome.out;
}

// A copy is a bound, and another way of octet's own is ours.
TEST(ToolSummarize, VariantsOfOctetAndCopiesAreNoPeers) {
  const Folder folder;
  write(
      folder.file("a.csv"),
      peers_csv({{"octet", 16, 100}, {"octet unfused", 16, 0, "ERROR"}, {"device copy", 16, 200}}));
  const std::string command = "summarize " + folder.path().string();
  const Outcome outcome = run_tool(command);
  EXPECT_TRUE(has_text(outcome.out, "octet: 1 PASS, 1 ERROR; peers: 1 PASS\n")) << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, "device copy")) << outcome.out;
  EXPECT_TRUE(has_text(run_tool(command + " --wide").out, "device copy"));
}

TEST(ToolSummarize, ProblemsAreNamedByWhatTellsThemApart) {
  const Folder folder;
  GemmLine one{"Model-A x", 1, 100};
  one.options = " --wgrad-blocks 1d";
  GemmLine two{"Model-A x", 1, 400};
  two.options = " --wgrad-blocks 2d";
  write(folder.file("a.csv"), gemm_csv({one, two}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm 1d"), "gemm 1d 100.0 TFLOPS 110.0 90.00 1 PASS");
  EXPECT_TRUE(has_text(outcome.out, "Every gemm: fp8\n")) << outcome.out;
  const Outcome wide = run_tool("summarize --wide " + folder.path().string());
  EXPECT_EQ(line_of(wide.out, "gemm fp8 2d"),
            "gemm fp8 2d cuda_test Test GPU 400.0 TFLOPS 440.0 360.0 1 PASS");
}

TEST(ToolSummarize, TakesAFileAndTheFolderItStandsIn) {
  const Folder folder;
  const std::string path = write(folder.file("in/a.csv"), gemm_csv({{}}));
  const std::string expected = run_tool("summarize " + folder.file("in")).out;
  EXPECT_EQ(expected.rfind("Test GPU: 1 row in 1 file\n", 0), 0u) << expected;
  EXPECT_EQ(run_tool("summarize " + path).out, expected);
  EXPECT_EQ(run_tool("summarize", "cd " + folder.file("in") + ";").out, expected);
}

TEST(ToolSummarize, ControlCharactersOfAFileAreEscaped) {
  const Folder folder;
  GemmLine line{"Model-\x1b[31mA x"};
  line.gpu = "GPU\a";
  write(folder.file("a.csv"), gemm_csv({line, {"Model-B x", 2}, {"Model-B y", 3}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_TRUE(has_text(outcome.out, "GPU\\x07")) << outcome.out;
  for (const char c : outcome.out) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
}

TEST(ToolSummarize, FitsAHundredColumns) {
  const std::string results = std::string(OCTET_SOURCE_DIR) + "/results/h200";
  const Outcome outcome = run_tool("summarize " + results, "COLUMNS=100");
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(bench::width_of(line), 100u) << line;
  }
  EXPECT_TRUE(has_text(outcome.out, "fp8 blockwise 1d prequan")) << outcome.out;
}

TEST(ToolSummarize, OptionsWithTheSameValueAreOtherProblems) {
  const Folder folder;
  GemmLine wide_gradient{"Model-A x", 1, 100};
  wide_gradient.options = " --dw f32";
  GemmLine wide_input{"Model-A x", 1, 400};
  wide_input.options = " --input f32";
  write(folder.file("a.csv"), gemm_csv({wide_gradient, wide_input}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm dw"), "gemm dw=f32 100.0 TFLOPS 110.0 90.00 1 PASS");
  EXPECT_EQ(line_of(outcome.out, "gemm input"), "gemm input=f32 400.0 TFLOPS 440.0 360.0 1 PASS");
}

TEST(ToolSummarize, NothingIsAveragedWhereAllFailed) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{"Model-A x", 1, 0, "FAIL"}}));
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(line_of(outcome.out, "gemm"), "gemm fp8 - TFLOPS - - 0 PASS, 1 FAIL");
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

TEST(ToolSummarize, ManyOtherFilesAreCounted) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{}}));
  for (int i = 0; i < 9; ++i) write(folder.file(fmt::format("b{}.txt", i)), "hello\n");
  const Outcome outcome = run_tool("summarize " + folder.path().string());
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 6) << outcome.err;
  EXPECT_TRUE(has_text(outcome.err, "ignored b4.txt (not a CSV)\nignored 4 more\n")) << outcome.err;
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
