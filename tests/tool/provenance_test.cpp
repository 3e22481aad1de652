// What ties a result to the kernels it was measured with.
#include "results.hpp"

#include "tool/results/stale_results.hpp"

#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

// What tool/device_sources.cmake prints of a tree.
std::string hash_of(const fs::path& tree, const std::string& op = "gemm") {
  const Folder folder;
  const std::string command =
      std::string(OCTET_CMAKE) + " -DSOURCE_DIR=" + tree.string() + " -DOP=" + op +
      " -P " OCTET_SOURCE_DIR "/tool/device_sources.cmake >" + folder.file("out");
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::string text = read_file(folder.file("out"));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

// What it writes of all operators: {"gemm", "dd29ac3a9b8e"}, a line each.
std::map<std::string, std::string> hashes_of(const fs::path& tree) {
  const Folder folder;
  const std::string command = std::string(OCTET_CMAKE) + " -DSOURCE_DIR=" + tree.string() +
                              " -DOUTPUT=" + folder.file("out") +
                              " -P " OCTET_SOURCE_DIR "/tool/device_sources.cmake";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string text = read_file(folder.file("out"));
  const std::regex entry(R"re(\{"(\w+)", "(\w+)"\})re");
  std::map<std::string, std::string> hashes;
  for (std::sregex_iterator it(text.begin(), text.end(), entry), end; it != end; ++it) {
    hashes[(*it)[1]] = (*it)[2];
  }
  return hashes;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void write_tree(const fs::path& tree) {
  write(tree / "src/device/launch.cu", "a");
  write(tree / "src/device/ptx/wgmma.cuh", "#include \"device/ptx/barrier.cuh\"\n");
  write(tree / "src/device/ptx/barrier.cuh", "a");
  write(tree / "src/ops/gemm/cuda_sm90_wgmma.cu", "#include \"device/ptx/wgmma.cuh\"\n");
  write(tree / "src/ops/gemm/cuda_sm90_choose.cpp", "c");
  write(tree / "src/ops/gemm/cpu_simd.cpp", "d");
}

TEST(DeviceSources, HashIsTheSameInEveryCheckoutAndFollowsTheKernels) {
  const Folder one;
  const Folder other;
  write_tree(one.path());
  write_tree(other.path());
  const std::string hash = hash_of(one.path());
  EXPECT_EQ(hash.size(), 12u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos) << hash;
  EXPECT_EQ(hash_of(other.path()), hash);
  write(other.path() / "src/ops/gemm/cpu_simd.cpp", "changed");
  EXPECT_EQ(hash_of(other.path()), hash) << "no kernel of a GPU";
  for (const char* path :
       {"src/device/launch.cu", "src/device/ptx/barrier.cuh", "src/device/ptx/wgmma.cuh",
        "src/ops/gemm/cuda_sm90_wgmma.cu", "src/ops/gemm/cuda_sm90_choose.cpp",
        "src/ops/gemm/new.cuh", "src/ops/quantize/new.cu", "src/device/new.hpp"}) {
    const std::string before = hash_of(other.path());
    write(other.path() / path, "changed");
    EXPECT_NE(hash_of(other.path()), before) << path;
  }
}

TEST(DeviceSources, AKernelChangesTheHashOfTheOperatorsThatRunIt) {
  const Folder tree;
  write_tree(tree.path());
  const auto hashes = [&] { return hashes_of(tree.path()); };
  const auto expect_changed = [&](const std::string& path, const std::string& text,
                                  const std::set<std::string>& wanted) {
    const auto before = hashes();
    write(tree.path() / path, text);
    std::set<std::string> changed;
    for (const auto& [op, hash] : hashes()) {
      if (hash != before.at(op)) changed.insert(op);
    }
    EXPECT_EQ(changed, wanted) << path;
  };
  EXPECT_EQ(hashes().at("rope"), hash_of(tree.path(), "rope"));
  expect_changed("src/device/rows/reduce.cuh", "no kernel includes it yet", {});
  expect_changed("src/ops/rms_norm/cuda_sm90_rows.cu", "#include \"device/rows/reduce.cuh\"\n",
                 {"rms_norm"});
  expect_changed("src/device/rows/reduce.cuh", "changed", {"rms_norm"});
  expect_changed("src/device/rows/reduce.cu", "the source beside it", {"rms_norm"});
  expect_changed("src/ops/rope/cuda_sm90_rows.cu", "#include \"ops/rms_norm/shared.cuh\"\n",
                 {"rope"});
  expect_changed("src/ops/rms_norm/shared.cuh", "of both", {"rms_norm", "rope"});
  expect_changed("src/ops/gated_activation/cuda_sm90_rows.cu", "a",
                 {"gated_activation", "gated_mlp"});
  expect_changed("src/ops/gemm/cuda_sm90_wgmma.cu", "changed",
                 {"gemm", "quantize", "fp8_linear", "gated_mlp"});
  expect_changed("src/ops/quantize/cuda_sm90_tile.cu", "a",
                 {"gemm", "quantize", "fp8_linear", "rms_norm", "rope", "rms_norm_rope",
                  "gated_activation", "gated_mlp"});
}

TEST(DeviceSources, TheToolHasTheHashOfItsTree) {
  const Folder folder;
  const std::string path = folder.file("x.csv");
  ASSERT_EQ(
      run_tool("bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3 -o " + path).status,
      0);
  EXPECT_EQ(read_results(path).records.at(0).at("Device Sources"), hash_of(OCTET_SOURCE_DIR));
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
  const auto tree = [](const std::string& op) {
    return op == "gemm" ? "aaa" : op == "rms-norm" ? "ccc" : "";
  };
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

}  // namespace
}  // namespace octet::tool
