// What a person sees at a terminal: what runs where, progress, an interrupted run, tables that fit.
#include "background_tool.hpp"

#include "tool/progress.hpp"

#include "bench/report/text_table.hpp"

#include <regex>
#include <sstream>

namespace octet::tool {
namespace {

bool says(const std::string& text, const std::string& wanted) {
  return text.find(wanted) != std::string::npos;
}

// The texts between line ends and redrawn lines, without colours.
std::vector<std::string> drawn_lines(const std::string& shown) {
  std::string text = std::regex_replace(shown, std::regex("\033\\[K"), "\n");
  text = std::regex_replace(text, std::regex("\r|\033\\[[0-9]*m"), "");
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

const std::string kTwoShapes =
    "bench gemm --shape 32x64x128 --shape 64x64x128 --device cpu --threads 2 --warmup 1 --iters 3";

TEST(ToolTerminal, BenchSaysFirstWhatRunsWhereAndWhereRowsGo) {
  const Folder folder;
  const Outcome outcome = run_tool(kTwoShapes + " -o " + folder.file("x.csv"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_TRUE(std::regex_match(first, std::regex("octet [0-9.]+ \\(.+\\) · cpu: .+, 2 threads, "
                                                 ".*AVX.* · quantize=cpu_.+ gemm=cpu_.+")))
      << first;
  EXPECT_EQ(second, "rows: " + folder.file("x.csv") + " · history: off");
  EXPECT_TRUE(says(run_tool(kTwoShapes).out, "rows: not kept (-o FILE.csv)"));
}

TEST(ToolTerminal, ProgressNamesShapeAndPhase) {
  const std::string shown = run_on_terminal(kTwoShapes, 100);
  EXPECT_TRUE(says(shown, "] 0/2 32x64x128, checking")) << shown;
  EXPECT_TRUE(says(shown, "] 0/2 32x64x128, warm-up")) << shown;
  EXPECT_TRUE(says(shown, "] 1/2 64x64x128, timing, about ")) << shown;
}

TEST(ToolTerminal, NothingIsWiderThanTheTerminal) {
  for (const unsigned short columns : {45, 60, 100}) {
    for (const std::string& line : drawn_lines(run_on_terminal(kTwoShapes, columns))) {
      const bool is_prose = says(line, "octet 0.") || says(line, "rows: ") ||
                            says(line, "Score: ") || says(line, "not shown: ");
      EXPECT_TRUE(is_prose || bench::width_of(line) <= columns) << line;
    }
  }
}

TEST(ToolTerminal, ADumbTerminalGetsNoEscapes) {
  const std::string shown = run_on_terminal(kTwoShapes, 80, "TERM=dumb");
  EXPECT_TRUE(says(shown, "2 PASS")) << shown;
  EXPECT_EQ(shown.find('\033'), std::string::npos) << shown;
  EXPECT_FALSE(says(shown, "0/2")) << "no progress line";
}

TEST(ToolTerminal, ProgressIsCutAndLosesItsBarOnANarrowTerminal) {
  EXPECT_EQ(progress_line(0.5, 1, 2, "512x1024x768, timing", 80),
            "[##########..........] 1/2 512x1024x768, timing");
  EXPECT_EQ(progress_line(0.5, 1, 2, "512x1024x768, timing", 40), "1/2 512x1024x768, timing");
  EXPECT_EQ(progress_line(0.5, 1, 2, "512x1024x768, timing", 20), "1/2 512x1024x768, …");
}

TEST(ToolTerminal, AnInterruptedBenchSaysWhatIsKeptAndHowToGoOn) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  const std::string shapes =
      "bench gemm --shape 32x64x128 --shape 2048x4096x4096 --device cpu --warmup 1 --iters 1000 "
      "-o ";
  const Outcome outcome = run_tool(shapes + path, "timeout --preserve-status -s INT 4");
  EXPECT_TRUE(says(outcome.err, "octet bench: interrupted after 1 of 2 cases; its row is in " +
                                    path + ".partial, rerun the same command to continue\n"))
      << outcome.out << outcome.err;
  EXPECT_TRUE(says(read_file(path + ".partial"), "32,64,128"));
}

TEST(ToolTerminal, AnInterruptedBenchWithoutAFileSaysThatNoRowsAreKept) {
  const Outcome outcome = run_tool("bench gemm --shape 2048x4096x4096 --device cpu",
                                   "timeout --preserve-status -s INT 2");
  EXPECT_TRUE(says(outcome.err, "interrupted after 0 of 1 case; without -o no rows are kept"))
      << outcome.err;
}

}  // namespace
}  // namespace octet::tool
