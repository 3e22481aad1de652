// Processes of this very program, and the signals that tell of them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace octet::tool {

// While it lives, the end of a child, Ctrl-C and SIGTERM are waited for and interrupt nothing.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The next of them, or 0 after `seconds`.
  int wait(double seconds) const;
  // What a child is to begin with.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t waited_{};
  sigset_t before_{};
};

struct ChildCommand {
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // "NAME=value", beside our own
  std::string log;                       // takes what it prints
};

// Starts this program anew. The child is killed when we die, however that happens: two writers of
// one file must not meet. Throws std::system_error.
pid_t start_child(const ChildCommand& command, const Signals& signals);

// How a child ended: "" where its status was 0, else "exit status 2" or "killed by signal 9 (Killed)".
std::string describe_end(int wait_status);

}  // namespace octet::tool
