// Pipes, devices, sockets and folders in place of files are refused before they are opened: a pipe
// would wait for a writer, /dev/zero never ends, and writing would replace them.
#include "result_files.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

struct SpecialFile {
  const char* name;
  const char* what;
};

class SpecialFiles : public testing::TestWithParam<SpecialFile> {
 protected:
  void SetUp() override {
    write(good_, gemm_csv({{}}));
    const std::string name = GetParam().name;
    if (name == "Pipe") make_pipe();
    if (name == "Device") fs::create_symlink("/dev/zero", path_);
    if (name == "Folder") fs::create_directory(path_);
    if (name == "Socket") make_socket();
  }

  void make_pipe() { ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0); }

  void make_socket() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path_.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    const int server = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(server);
  }

  // A tool that opened the file would wait or read for ever.
  Outcome run(const std::string& arguments, const std::string& environment = "") const {
    return run_tool(arguments, environment + " timeout 20");
  }

  Folder folder_;
  std::string good_ = folder_.file("good.csv");
  std::string path_ = folder_.file("x.csv");
};

TEST_P(SpecialFiles, AreRefusedAsInputAndOutput) {
  const std::string one = "bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3 ";
  const bool is_folder = std::string(GetParam().what) == "a folder";
  std::vector<std::string> commands{"bench suite " + path_ + " -d " + folder_.file("out"),
                                    "bench gemm --device cpu --suite " + path_, one + "-o " + path_,
                                    one + "--json " + path_, "report " + good_ + " -o " + path_};
  if (!is_folder) {
    for (const char* command : {"compare ", "summarize ", "report -o /no/page.html "}) {
      const bool two = std::string(command) == "compare ";
      commands.push_back(command + (two ? good_ + " " : "") + path_);
    }
  }
  const fs::file_type before = fs::status(path_).type();
  for (const std::string& command : commands) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 2) << command << "\n" << outcome.out << outcome.err;
    EXPECT_TRUE(has_text(outcome.err, path_ + ": is " + GetParam().what + ", wanted "))
        << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(fs::status(path_).type(), before);
}

TEST_P(SpecialFiles, AreNoHistory) {
  const Outcome list = run("history list", "OCTET_HISTORY=" + path_);
  EXPECT_EQ(list.status, 2) << list.out;
  EXPECT_TRUE(has_text(list.err, std::string("is ") + GetParam().what + ", wanted a history"))
      << list.err;
  const Outcome bench =
      run("bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3", "OCTET_HISTORY=" + path_);
  EXPECT_EQ(bench.status, 0) << "the rows are still measured" << bench.err;
  EXPECT_TRUE(has_text(bench.err, "the history is not written")) << bench.err;
}

TEST_P(SpecialFiles, AreIgnoredInAFolder) {
  if (std::string(GetParam().what) == "a folder") write(path_ + "/inner.txt", "");
  const Outcome outcome = run("summarize " + folder_.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.err, "ignored x.csv")) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    , SpecialFiles,
    testing::Values(SpecialFile{"Pipe", "a pipe"}, SpecialFile{"Device", "a device"},
                    SpecialFile{"Socket", "a socket"}, SpecialFile{"Folder", "a folder"}),
    [](const testing::TestParamInfo<SpecialFile>& file) { return std::string(file.param.name); });

TEST(ToolSummarize, EscapesTheNamesOfIgnoredFiles) {
  const Folder folder;
  write(folder.file("a.csv"), gemm_csv({{}}));
  write(folder.file("x\x1b[31m.txt"), "");
  EXPECT_EQ(run_tool("summarize " + folder.path().string()).err,
            "ignored x\\x1b[31m.txt (not a CSV)\n");
}

TEST(ToolSummarize, TakesOneFile) {
  const Folder folder;
  const std::string path = write(folder.file("a.csv"), gemm_csv({{"Model-A x", 1, 100}}));
  write(folder.file("b.csv"), gemm_csv({{"Model-A x", 1, 200}}));
  const Outcome outcome = run_tool("summarize " + path);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_text(outcome.out, " 100.0 ")) << outcome.out;
  EXPECT_FALSE(has_text(outcome.out, " 200.0 ")) << outcome.out;
  const Outcome empty = run_tool("summarize " + write(folder.file("c.csv"), kGemmColumns));
  EXPECT_EQ(empty.status, 2);
  EXPECT_TRUE(has_text(empty.err, "c.csv: has no rows")) << empty.err;
}

}  // namespace
}  // namespace octet::tool
