// octet tune on a small problem, with a store of the test's own.
#pragma once

#include "background_tool.hpp"
#include "run_tool.hpp"

#include "dispatch/machine.hpp"

#include <octet/octet.hpp>

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace octet::tool {

// Comes before the command, which then runs without the rights of root, to whom nothing is read-only. Empty where the
// tests have none; nothing where they cannot be dropped.
inline std::optional<std::string> without_root() {
  if (geteuid() != 0) return "";
  const std::string command = "setpriv --reuid=65534 --regid=65534 --clear-groups";
  const std::string probe = command + " " + tool_path() + " --version >/dev/null 2>&1";
  return std::system(probe.c_str()) == 0 ? std::optional(command) : std::nullopt;
}

// The other layer of these tests: it has problems of its own.
inline const std::string kOtherShape = "--device cpu --threads 1 --shape 8x16x32 ";

inline const std::string kShape = "--device cpu --threads 1 --shape 40x600x256 ";
inline const std::string kQuick = "--seconds-per-candidate 0.01 ";

class ToolTune : public testing::Test {
 protected:
  void SetUp() override {
    if (!this_machine(kCpu, 1).avx2) GTEST_SKIP() << "this CPU has no AVX2: nothing to tune";
  }
  std::string store() const { return "--store " + path_ + " "; }
  Outcome tune(const std::string& arguments) const {
    return run_tool("tune " + arguments + store() + "--wide");
  }
  std::string table() const { return read_file(folder_.file("state/tuning.table")); }

  Folder folder_;
  std::string path_ = folder_.file("state/tuning.sqlite");
};

}  // namespace octet::tool
