// What ties a result to the kernels it was measured with.
#include "results.hpp"

#include "stale_results.hpp"

#include <fstream>

namespace octet::tool {
namespace {

namespace fs = std::filesystem;

// What tool/device_sources.cmake prints of a tree.
std::string hash_of(const fs::path& tree) {
  const Folder folder;
  const std::string command = std::string(OCTET_CMAKE) + " -DSOURCE_DIR=" + tree.string() + " -P " +
                              OCTET_SOURCE_DIR "/tool/device_sources.cmake >" + folder.file("out");
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::string text = read_file(folder.file("out"));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void write_tree(const fs::path& tree) {
  write(tree / "src/device/ptx/wgmma.cuh", "a");
  write(tree / "src/ops/gemm/cuda_sm90_wgmma.cu", "b");
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
  for (const char* path : {"src/device/ptx/wgmma.cuh", "src/ops/gemm/cuda_sm90_wgmma.cu",
                           "src/ops/gemm/cuda_sm90_choose.cpp", "src/ops/gemm/new.cuh"}) {
    const std::string before = hash_of(other.path());
    write(other.path() / path, "changed");
    EXPECT_NE(hash_of(other.path()), before) << path;
  }
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
  write(results / "h200/new.csv", "TestID,Device Sources\n1,aaa\n");
  write(results / "h200/old.csv", "TestID,Device Sources\n1,aaa\n2,bbb\n3,bbb\n");
  write(results / "h200/peers.csv", "TestID,Peer\n1,x\n");
  write(results / "h200/broken.csv", "a,\"b\n");
  const auto lines = stale_results(results.string(), "aaa");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].rfind("UNREADABLE: results/h200/broken.csv", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1],
            "STALE: results/h200/old.csv was measured with device sources bbb, the tree has aaa");
  EXPECT_TRUE(stale_results(folder.file("missing"), "aaa").empty());
}

}  // namespace
}  // namespace octet::tool
