// octet history: what runs record, concurrently and after being killed, and files that are no
// history.
#include "background_tool.hpp"
#include "results.hpp"
#include "tool/history/history.hpp"

#include "bench/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

class ToolHistory : public testing::Test {
 protected:
  std::string environment() const { return "OCTET_HISTORY=" + path_; }
  Outcome run(const std::string& arguments) const { return run_tool(arguments, environment()); }

  Folder folder_;
  // The first run creates the folder.
  std::string path_ = folder_.file("state/history.sqlite");
};

const std::string kTwo =
    "bench gemm --device cpu --shape 8x16x32 --shape 9x17x33 --warmup 1 --iters 3 ";

TEST_F(ToolHistory, HasTheRowsOfEveryRun) {
  EXPECT_TRUE(has(run("history list").out, "no run is recorded"));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "asking makes no history";
  ASSERT_EQ(run(kTwo).status, 0);
  ASSERT_EQ(run("bench quantize --device cpu --shape 8x16 --warmup 1 --iters 5").status, 0);
  const Outcome list = run("history list");
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_EQ(lines_with(list.out, "FLOPS"), 1u) << list.out;
  EXPECT_EQ(lines_with(list.out, "B/s"), 1u) << list.out;
  EXPECT_EQ(lines_with(run("history list --last 1").out, "B/s"), 1u);
  EXPECT_EQ(lines_with(run("history list --last 1").out, "FLOPS"), 0u);
  const Outcome show = run("history show 1");
  EXPECT_TRUE(has(show.out, "run 1 of gemm")) << show.out << show.err;
  EXPECT_EQ(lines_with(show.out, "PASS"), 2u) << show.out;
  EXPECT_EQ(lines_with(show.out, "9x17x33"), 1u) << show.out;
}

TEST_F(ToolHistory, ComparesWhatCanBeCompared) {
  for (const std::string more : {"", "--seed 2", "--wgrad-blocks 2d"}) {
    ASSERT_EQ(run(kTwo + more).status, 0);
  }
  const Outcome best = run("history best");
  EXPECT_EQ(lines_with(best.out, "8x16x32"), 2u) << "one for each --wgrad-blocks\n" << best.out;
  const Outcome trend = run("history trend --shape 8x16x32");
  EXPECT_EQ(trend.status, 0) << trend.err;
  EXPECT_EQ(lines_with(trend.out, "FLOPS"), 2u) << trend.out;
}

TEST_F(ToolHistory, WhatTheEnvironmentForcedIsASetting) {
  const std::string forced =
      "OCTET_GEMM_BACKEND=cpu_reference OCTET_QUANTIZE_BACKEND=cpu_reference ";
  ASSERT_EQ(run(kTwo).status, 0);
  ASSERT_EQ(run_tool(kTwo, forced + environment()).status, 0);
  EXPECT_EQ(lines_with(run("history show 1").out, "OCTET_"), 0u);
  const Outcome show = run("history show 2");
  EXPECT_EQ(lines_with(show.out, forced + "--granularity blockwise --format e4m3"), 2u) << show.out;
  const Outcome trend = run("history trend --shape 8x16x32");
  EXPECT_EQ(lines_with(trend.out, "FLOPS"), 2u) << trend.out;
}

TEST_F(ToolHistory, RecordsWhatIsMeasuredAndNotWhatIsTakenUp) {
  const std::string command = kTwo + "-o " + folder_.file("x.csv");
  ASSERT_EQ(run(command).status, 0);
  ASSERT_EQ(run(command).status, 0);
  EXPECT_EQ(lines_with(run("history list").out, "FLOPS"), 1u);
}

TEST_F(ToolHistory, ManyWritersLoseNothing) {
  constexpr int kWriters = 6;
  const std::string one = environment() + " " + tool_path() + " " + kTwo + " >" +
                          folder_.file("out") + " 2>>" + folder_.file("err") + " & ";
  std::string all;
  for (int i = 0; i < kWriters; ++i) all += one;
  ASSERT_EQ(std::system((all + "wait").c_str()), 0);
  EXPECT_EQ(read_file(folder_.file("err")), "");
  const std::string list = run("history list").out;
  EXPECT_EQ(lines_with(list, "FLOPS"), std::size_t{kWriters}) << list;
  for (int i = 1; i <= kWriters; ++i) {
    EXPECT_EQ(lines_with(run("history show " + std::to_string(i)).out, "PASS"), 2u) << i;
  }
}

TEST_F(ToolHistory, KeepsTheRowsOfAKilledRun) {
  const std::string rows = folder_.file("x.csv");
  std::vector<std::string> arguments{"bench", "gemm", "--device", "cpu", "-o", rows};
  for (const char* shape : {"8x16x32", "8x16x33", "8x16x34", "8x16x35", "8x16x36", "8x16x37"}) {
    arguments.insert(arguments.end(), {"--shape", shape});
  }
  arguments.insert(arguments.end(), {"--iters", "100000000", "--seconds-per-case", "0.2"});
  {
    BackgroundTool bench(arguments, path_);
    ASSERT_TRUE(wait_until([&] {
      const std::string text = read_file(rows + ".partial");
      return std::count(text.begin(), text.end(), '\n') >= 3;
    }));
    EXPECT_EQ(bench.end(SIGKILL), -SIGKILL);
  }
  EXPECT_GE(lines_with(run("history show 1").out, "PASS"), 2u);
  EXPECT_EQ(run(kTwo).status, 0);
  EXPECT_EQ(lines_with(run("history show 2").out, "PASS"), 2u);
}

TEST_F(ToolHistory, ABenchmarkWarnsOnceAndGoesOn) {
  for (const std::string place : {"/proc/octet/history.sqlite", "/dev/null", "/"}) {
    const Outcome outcome = run_tool(kTwo, "OCTET_HISTORY=" + place);
    EXPECT_EQ(outcome.status, 0) << place;
    EXPECT_TRUE(has(outcome.out, "2 PASS")) << outcome.out;
    EXPECT_EQ(lines_with(outcome.err, "the history is not written: " + place), 1u) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(ToolHistory, DoesNotChangeOtherFiles) {
  const std::string other = folder_.file("other");
  for (const std::string& text : {std::string("mine\n"), std::string(8192, 'x')}) {
    std::ofstream(other) << text;
    const Outcome bench = run_tool(kTwo, "OCTET_HISTORY=" + other);
    EXPECT_EQ(bench.status, 0);
    EXPECT_TRUE(has(bench.err, "the history is not written")) << bench.err;
    EXPECT_EQ(run_tool("history list", "OCTET_HISTORY=" + other).status, 2);
    EXPECT_EQ(read_file(other), text);
  }
}

TEST_F(ToolHistory, AnEmptyFileIsAnEmptyHistory) {
  const std::string empty = folder_.file("empty.sqlite");
  std::ofstream{empty};
  const std::string history = "OCTET_HISTORY=" + empty;
  for (const std::string command : {"history list", "history best"}) {
    const Outcome outcome = run_tool(command, history);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "no run is recorded in " + empty + " yet\n");
  }
  EXPECT_EQ(std::filesystem::file_size(empty), 0u) << "asking makes no history";
  EXPECT_EQ(run_tool(kTwo, history).err, "");
  EXPECT_EQ(lines_with(run_tool("history list", history).out, "FLOPS"), 1u);
}

TEST_F(ToolHistory, NamesTheFileThatIsDamaged) {
  ASSERT_EQ(run(kTwo).status, 0);
  // Keeps the first page, with header and schema, and overwrites all others with noise.
  std::string text = read_file(path_);
  ASSERT_GT(text.size(), 4096u);
  std::fill(text.begin() + 4096, text.end(), '\x55');
  std::ofstream(path_, std::ios::binary) << text;
  for (const std::string command :
       {"history list", "history show 1", "history best", "history trend --shape 8x16x32"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_TRUE(has(outcome.err, path_ + ": database disk image is malformed")) << outcome.err;
  }
  const Outcome bench = run(kTwo);
  EXPECT_EQ(bench.status, 0);
  EXPECT_TRUE(has(bench.err, "the history is not written: " + path_ + ": database disk image is"))
      << bench.err;
}

TEST_F(ToolHistory, RefusesOneThingOfNoHistory) {
  for (const std::string command : {"history show 3", "history trend --shape 8x16x32"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_TRUE(has(outcome.err, "no run is recorded in " + path_ + " yet")) << outcome.err;
  }
}

TEST_F(ToolHistory, IsOffWhenAskedTo) {
  const std::string here = "cd " + folder_.path().string() + ";";
  for (const std::string off : {"none", "", "off", "OFF", "no", "0"}) {
    const std::string home = " XDG_STATE_HOME=" + folder_.path().string();
    const Outcome bench = run_tool(kTwo, here + "OCTET_HISTORY=" + off + home);
    EXPECT_EQ(bench.status, 0);
    EXPECT_EQ(bench.err, "");
    const Outcome list = run_tool("history list", here + "OCTET_HISTORY=" + off + home);
    EXPECT_EQ(list.status, 2);
    EXPECT_TRUE(has(list.err, "the history is off: OCTET_HISTORY is \"" + off + "\"")) << list.err;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ToolHistory, IsInTheStateFolderOfTheUser) {
  const std::string unset = "env -u OCTET_HISTORY -u XDG_STATE_HOME ";
  ASSERT_EQ(run_tool(kTwo, unset + "HOME=" + folder_.path().string()).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_.file(".local/state/octet/history.sqlite")));
  ASSERT_EQ(run_tool(kTwo, unset + "XDG_STATE_HOME=" + folder_.file("xdg")).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("xdg/octet/history.sqlite")));
}

TEST_F(ToolHistory, DoesNotCreateAHomeFolder) {
  const std::string home = folder_.file("gone");
  const std::string unset = "env -u OCTET_HISTORY -u XDG_STATE_HOME HOME=" + home;
  const Outcome bench = run_tool(kTwo, unset);
  EXPECT_EQ(bench.status, 0);
  EXPECT_EQ(lines_with(bench.err, "the history is not written: there is no home folder " + home),
            1u)
      << bench.err;
  EXPECT_FALSE(std::filesystem::exists(home));
  EXPECT_EQ(run_tool("history list", unset).status, 2);
}

TEST_F(ToolHistory, IsWrittenThroughALink) {
  const std::string link = folder_.file("link.sqlite");
  const std::string real = folder_.file("real.sqlite");
  std::filesystem::create_symlink("real.sqlite", link);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_tool(kTwo, "OCTET_HISTORY=" + link).err, "");
    EXPECT_TRUE(std::filesystem::is_symlink(link));
  }
  EXPECT_EQ(lines_with(run_tool("history list", "OCTET_HISTORY=" + real).out, " gemm "), 2u);
}

// The score is that of the JSON: the step's rate, whatever the unit that fits it.
TEST_F(ToolHistory, HasTheScoreOfTheJson) {
  const std::string json = folder_.file("x.json");
  ASSERT_EQ(
      run("bench rms-norm --device cpu --shape 16x256 --warmup 1 --iters 5 --json " + json).status,
      0);
  const std::string text = read_file(json);
  const std::string key = "\"score\": ";
  const double score = std::stod(text.substr(text.find(key) + key.size()));  // in TB/s
  const std::string list = run("history list").out;
  const bool shown = has(list, fmt::format("{:.4g} GB/s", score * 1e3)) ||
                     has(list, fmt::format("{:.4g} MB/s", score * 1e6));
  EXPECT_TRUE(shown) << score << " TB/s\n" << list;
}

TEST_F(ToolHistory, EscapesControlCharacters) {
  const std::string cases = folder_.file("cases.csv");
  std::ofstream(cases) << "test_id,model,op,mbs,M,N,K\nid\x1b[31m,m,up,1,8,16,32\n";
  ASSERT_EQ(run("bench gemm --device cpu --warmup 1 --iters 3 --suite " + cases).status, 0);
  const Outcome show = run("history show 1");
  EXPECT_EQ(lines_with(show.out, "id\\x1b[31m"), 1u) << show.out;
  EXPECT_FALSE(has(show.out, "\x1b")) << show.out;
}

TEST_F(ToolHistory, TablesFitTheTerminalUnlessWide) {
  ASSERT_EQ(run(kTwo).status, 0);
  const auto widest = [&](const std::string& arguments) {
    std::istringstream text(run_tool(arguments, environment() + " COLUMNS=80").out);
    std::size_t most = 0;
    for (std::string line; std::getline(text, line);) {
      const bool is_headline = has(line, " · ") || has(line, "run 1 of gemm");
      if (!is_headline) most = std::max(most, bench::width_of(line));
    }
    return most;
  };
  for (const std::string command :
       {"history list", "history show 1", "history best", "history trend --shape 8x16x32"}) {
    EXPECT_LE(widest(command), 80u) << command;
  }
  EXPECT_GT(widest("history best --wide"), 100u);
}

TEST_F(ToolHistory, SaysWhereItIs) {
  const auto place = [](const char* history, const char* home) {
    setenv("OCTET_HISTORY", history, 1);
    setenv("HOME", home, 1);
    return history_place();
  };
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  EXPECT_EQ(place("off", "/h"), "off");
  EXPECT_EQ(place("/h/x.sqlite", "/h"), "~/x.sqlite");
  EXPECT_EQ(place("/hx.sqlite", "/h"), "/hx.sqlite");
  setenv("HOME", before.c_str(), 1);
}

TEST_F(ToolHistory, RefusesWhatIsNotThere) {
  ASSERT_EQ(run(kTwo).status, 0);
  EXPECT_TRUE(has(run("history show 99").err, "there is no run 99"));
  EXPECT_TRUE(has(run("history show").err, "ID is required: The run"));
  EXPECT_TRUE(has(run("history trend").err, "--shape is required: The shape"));
  EXPECT_TRUE(has(run("history trend --shape 1x1x1").err, "no row of gemm that passed has"));
  EXPECT_EQ(run("history show 99").status, 2);
  ASSERT_EQ(run("bench quantize --device cpu --shape 8x16 --warmup 1 --iters 5").status, 0);
  const Outcome nope = run("history trend --op nope --shape 8x16");
  EXPECT_EQ(nope.status, 2);
  EXPECT_TRUE(
      has(nope.err, "--op nope: no run of it is recorded; there are runs of: gemm, quantize"))
      << nope.err;
  // The schema version is at byte 60 of the file.
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(60);
  file.write("\0\0\0\x63", 4);
  file.close();
  const Outcome newer = run("history list");
  EXPECT_EQ(newer.status, 2);
  EXPECT_TRUE(has(newer.err, "has schema 99, this octet knows 1")) << newer.err;
}

}  // namespace
}  // namespace octet::tool
