// Child processes, of this program or another, and the signals that report on them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace octet::tool {

// While it lives, the end of a child, Ctrl-C, Ctrl-\, Ctrl-Z, SIGTERM and SIGHUP are blocked and read with wait().
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The next of these signals, or 0 after `seconds`.
  int wait(double seconds) const;
  // The signal mask for a child.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t waited_{};
  sigset_t before_{};
};

struct ChildCommand {
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // "NAME=value", in addition to our own
  std::string log;                       // file for its output
  std::string program{};                 // its path; empty: this program
};

// Starts the program in a process group of its own. The child is killed when this process dies in any
// way, so that two processes never write the same file. Throws std::system_error.
pid_t start_child(const ChildCommand& command, const Signals& signals);

// Sends a signal to a child and to the processes it started: what a script or ncu runs ends, too.
void signal_child(pid_t child, int number);

// For Ctrl-Z: stops the children and this process, until it is continued; then they go on, too.
void pause_with(const std::vector<pid_t>& children);

// How a child ended: "" for status 0, else "exit status 2" or "killed by signal 9 (Killed)".
std::string describe_end(int wait_status);

// Runs a child to its end. Passes Ctrl-Z on to its group, and Ctrl-C, SIGTERM and the like, of which the second
// kills it.
struct ChildEnd {
  int wait_status = 0;
  int stopped_by = 0;  // the signal that was passed on
};
ChildEnd run_child(const ChildCommand& command, const Signals& signals);

}  // namespace octet::tool
