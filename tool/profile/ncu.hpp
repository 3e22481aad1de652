// Runs octet under Nsight Compute's ncu and reads its counters.
#pragma once

#include "tool/profile/launches.hpp"
#include "tool/profile/ncu_report.hpp"
#include "tool/suite/child.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace octet::tool {

// Ctrl-C or another signal that ended a child.
struct Interrupted : std::runtime_error {
  explicit Interrupted(int number) : std::runtime_error("interrupted"), signal(number) {}
  int signal;
};

// The path of ncu: `given`, a path or a name on PATH, or else ncu on PATH. Throws UsageError if there is
// no such program, and without `given` Error that says how to get it.
std::string find_ncu(const std::string& given);

// The path of a program that a user names with `option`. Throws UsageError if it cannot be run.
std::string program_path(const std::string& option, const std::string& path);
// The path of this program.
std::string own_path();

// A child that ran: its facts and, under ncu, the launches.
struct ChildRun {
  bool ok = false;
  Facts facts{};
  std::vector<KernelLaunch> launches{};
  std::string complaint{};  // what went wrong, in lines
};

// Runs octet in processes of its own. While it lives, Ctrl-C and the like wait for the child that
// runs and end it first.
class Children {
 public:
  Children();
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Runs PROGRAM ARGUMENTS. Throws Interrupted.
  ChildRun run(const std::string& program, const std::vector<std::string>& arguments) const;
  // The same under ncu, which records what lies between begin_recording() and end_recording(). It
  // leaves the clocks alone and empties the caches before every pass. Metrics that ncu does not
  // know are dropped from `metrics`, and ncu is run again.
  ChildRun run_under(const std::string& ncu, const std::string& program,
                     const std::vector<std::string>& arguments,
                     std::vector<std::string>& metrics) const;

 private:
  std::string run_to_end(const ChildCommand& command) const;

  Signals signals_;
  std::string folder_;  // of their output, removed at the end
};

}  // namespace octet::tool
