// The test called results: prints which published results are older than the kernels. That is no
// failure, since measuring again needs a GPU; a file that cannot be read is one.
#include "stale_results.hpp"

#include <octet/octet.h>

#include <algorithm>
#include <cstdio>

namespace {

// "rms-norm" on the command line is "rms_norm" in the library.
std::string tree_hash(std::string op) {
  std::replace(op.begin(), op.end(), '-', '_');
  return octet_device_sources(op.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: octet_stale_results FOLDER\n", stderr);
    return 2;
  }
  if (tree_hash("gemm").empty()) {
    std::puts("not checked: built without CUDA");
    return 0;
  }
  const auto lines = octet::tool::stale_results(argv[1], {tree_hash, octet::tool::planned_row});
  for (const std::string& line : lines) std::puts(line.c_str());
  if (lines.empty()) std::puts("no stale results");
  const auto is_unreadable = [](const std::string& line) { return line.starts_with("UNREADABLE"); };
  return std::any_of(lines.begin(), lines.end(), is_unreadable) ? 1 : 0;
}
