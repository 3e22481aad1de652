// octet report writes a complete file or none, and no text of a CSV becomes markup.
// report_page_test.py tests the page in a browser.
#include "result_files.hpp"

#include <algorithm>

namespace octet::tool {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ToolReport, IsOneFileWithEverythingInside) {
  const Folder folder;
  write(folder.file("in/a.csv"), gemm_csv({{}, {"Model-B mlp", 2, 50}}));
  const std::string page = folder.file("report.html");
  const Outcome outcome = run_tool("report " + folder.file("in") + " -o " + page);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            fmt::format("wrote {} ({} KB, 1 file, 2 rows)\n", page, read_file(page).size() / 1000));
  const std::string text = read_file(page);
  EXPECT_EQ(text.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_TRUE(has_text(text, "Chart.js v3"));
  EXPECT_TRUE(has_text(text, "Model-B mlp"));
  EXPECT_TRUE(has_text(text, "</html>"));
  EXPECT_FALSE(has_text(text, "{{"));
  EXPECT_FALSE(has_text(text, "src="));
  EXPECT_EQ(count_of(text, "href=\"http"), 0u);
  EXPECT_FALSE(std::filesystem::exists(page + ".new"));
}

TEST(ToolReport, TakesAFileAndHasDefaults) {
  const Folder folder;
  const std::string path = write(folder.file("in/a.csv"), gemm_csv({{}}));
  const Outcome outcome = run_tool("report", "cd " + folder.file("in") + ";");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("wrote report.html (", 0), 0u) << outcome.out;
  EXPECT_TRUE(std::filesystem::exists(folder.file("in/report.html")));
  const std::string page = folder.file("one.html");
  EXPECT_EQ(run_tool("report " + path + " -o " + page).status, 0);
  EXPECT_TRUE(has_text(read_file(page), "Model-A attn"));
}

TEST(ToolReport, HasRatiosOfCasesThatBothPassed) {
  const Folder folder;
  write(folder.file("in/a.csv"), peers_csv({{"octet", 16, 100},
                                            {"rival", 16, 0, "ERROR"},
                                            {"octet", 4096, 1000},
                                            {"rival", 4096, 500}}));
  const std::string page = folder.file("report.html");
  ASSERT_EQ(run_tool("report " + folder.file("in") + " -o " + page).status, 0);
  const std::string text = read_file(page);
  EXPECT_TRUE(has_text(text, R"("ratiosByOperator":[{"op":"gemm","brief":"","device":"Test GPU",)"
                             R"("peer":"rival","cases":1,"mean":2.0,"worst":2.0,"best":2.0,)"));
  EXPECT_TRUE(has_text(text, R"("contenders":{"rival":"peer","octet":"octet"})") ||
              has_text(text, R"("contenders":{"octet":"octet","rival":"peer"})"));
  EXPECT_TRUE(has_text(text, R"("checks":{"octet":{"passed":2,"failed":0,"errors":0},)"
                             R"("peers":{"passed":1,"failed":0,"errors":1}})"));
  EXPECT_TRUE(has_text(text, R"("title":"gemm vs peers")"));
}

// The distribution of ratios is drawn of these, so every part of a step has its own.
TEST(ToolReport, HasTheRatiosOfTheParts) {
  const Folder folder;
  write(folder.file("in/a.csv"),
        "Case,M,N,K,Combined Step Time (ms),Forward TFLOPS,Backward TFLOPS,Combined Step "
        "TFLOPS,Baseline,Forward Ratio,Backward Ratio,Combined Ratio,GPU,Check,Backend,Commit,"
        "Command\nrandom M<=256 9/1,16,64,64,1,1,1,2,rival,1.5,0.5,0.8,Test "
        "GPU,PASS,x,abc,octet bench gemm --dtype fp8\n");
  const std::string page = folder.file("report.html");
  ASSERT_EQ(run_tool("report " + folder.file("in") + " -o " + page).status, 0);
  EXPECT_TRUE(has_text(read_file(page), R"("baselines":[{"name":"rival","ratio":0.8,"rate":2.5,)"
                                        R"("parts":{"forward":1.5,"backward":0.5}}])"));
  EXPECT_TRUE(has_text(read_file(page), R"("problem":"fp8 random M\u003c=256")"));
}

TEST(ToolReport, NothingOfACsvEndsTheScript) {
  const Folder folder;
  write(folder.file("plain/a.csv"), gemm_csv({{"Model-A x"}}));
  write(folder.file("hostile/a.csv"), gemm_csv({{"</script><!--<script> x"}}));
  const std::string page = folder.file("report.html");
  ASSERT_EQ(run_tool("report " + folder.file("plain") + " -o " + page).status, 0);
  const std::size_t scripts = count_of(read_file(page), "</script");
  ASSERT_EQ(run_tool("report " + folder.file("hostile") + " -o " + page).status, 0);
  EXPECT_EQ(count_of(read_file(page), "</script"), scripts);
  EXPECT_FALSE(has_text(read_file(page), "<!--<"));
}

TEST(ToolReport, ShowsTheDifferenceOfTwoRuns) {
  const Folder folder;
  write(folder.file("old/a.csv"), gemm_csv({{}, {"Model-A y", 2, 100}}));
  write(folder.file("new/a.csv"), gemm_csv({{}, {"Model-A y", 2, 90}}));
  const std::string page = folder.file("report.html");
  const std::string command =
      "report " + folder.file("new") + " --against " + folder.file("old") + " -o " + page;
  ASSERT_EQ(run_tool(command).status, 0);
  EXPECT_TRUE(has_text(read_file(page), "\"verdict\":\"regression\""));
  EXPECT_TRUE(has_text(read_file(page), "\"before\":100.0,\"after\":90.0"));
  write(folder.file("old/a.csv"), gemm_csv({{"Model-A y", 2, 90, "PASS", 1, "Other GPU"}}));
  const Outcome other = run_tool(command);
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(has_text(other.err, "--any-device")) << other.err;
  EXPECT_TRUE(has_text(read_file(page), "\"before\":100.0")) << "the page before is still there";
  EXPECT_EQ(run_tool(command + " --any-device").status, 0);
}

TEST(ToolReport, GivesNoVerdictWhereTheSettingsDiffer) {
  const Folder folder;
  GemmLine cold{"Model-A y", 2, 50};
  cold.options = " --cold";
  write(folder.file("old/a.csv"), gemm_csv({{"Model-A y", 2, 100}}));
  write(folder.file("new/a.csv"), gemm_csv({cold}));
  const std::string page = folder.file("report.html");
  const Outcome outcome =
      run_tool("report " + folder.file("new") + " --against " + folder.file("old") + " -o " + page);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(read_file(page), "\"verdict\":\"none\",\"reason\":\"clock mode"));
}

TEST(ToolReport, AnOutputThatCannotBeWrittenIsRefused) {
  const Folder folder;
  write(folder.file("in/a.csv"), gemm_csv({{}}));
  for (const std::string& output :
       {folder.file("no/such/report.html"), folder.path().string(), std::string("/dev/null"),
        std::string("/dev/full/x"), std::string("''")}) {
    const Outcome outcome = run_tool("report " + folder.file("in") + " -o " + output);
    EXPECT_EQ(outcome.status, 2) << output;
    EXPECT_TRUE(has_text(outcome.err, "-o")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "nothing but in/";
}

// The disk fills up while the page is written: the old page stays.
TEST(ToolReport, APageThatDoesNotFitLeavesTheOldOne) {
  const Folder folder;
  write(folder.file("in/a.csv"), gemm_csv({{}}));
  const std::string page = folder.file("report.html");
  ASSERT_EQ(run_tool("report " + folder.file("in") + " -o " + page).status, 0);
  const std::string text = read_file(page);
  write(folder.file("in/b.csv"), gemm_csv({{}}));
  const Outcome outcome =
      run_tool("report " + folder.file("in") + " -o " + page, "ulimit -f 8; trap '' XFSZ;");
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_TRUE(has_text(outcome.err, page)) << outcome.err;
  EXPECT_EQ(read_file(page), text);
  EXPECT_FALSE(std::filesystem::exists(page + ".new"));
}

TEST(ToolReport, ReplacesNothingButItsOwnPages) {
  const Folder folder;
  const std::string rows = write(folder.file("in/a.csv"), gemm_csv({{}}));
  const std::string page = write(folder.file("report.html"), "");  // an empty file may be replaced
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_tool("report " + folder.file("in") + " -o " + page).status, 0);
  }
  const std::string notes = write(folder.file("notes"), "mine\n");
  const std::string other =
      write(folder.file("other.html"), "<!DOCTYPE html>\n<title>mine</title>\n");
  for (const std::string& path : {rows, notes, other}) {
    const std::string text = read_file(path);
    const Outcome outcome = run_tool("report " + folder.file("in") + " -o " + path);
    EXPECT_EQ(outcome.status, 2) << path;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(has_text(outcome.err, "-o " + path + ": does not hold a page of")) << outcome.err;
    EXPECT_EQ(read_file(path), text);
  }
}

}  // namespace
}  // namespace octet::tool
