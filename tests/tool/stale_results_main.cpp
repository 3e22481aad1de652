// The test called results: prints which published results the kernels have outgrown. It never fails:
// measuring again needs a GPU.
#include "stale_results.hpp"

#include "octet_device_sources.h"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: octet_stale_results FOLDER\n", stderr);
    return 2;
  }
  const auto lines = octet::tool::stale_results(argv[1], OCTET_DEVICE_SOURCES);
  for (const std::string& line : lines) std::puts(line.c_str());
  if (lines.empty()) std::puts("no stale results");
  return 0;
}
