// Runs the octet command in the background, for tests that stop it before it is done.
#pragma once

#include "run_tool.hpp"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace octet::tool {

class BackgroundTool {
 public:
  explicit BackgroundTool(std::vector<std::string> arguments, const std::string& history = "none") {
    setenv("OCTET_HISTORY", history.c_str(), 1);
    const std::string path = tool_path();
    arguments.insert(arguments.begin(), "octet");
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int nothing = open("/dev/null", O_RDWR);
      for (const int standard : {0, 1, 2}) dup2(nothing, standard);
      execv(path.c_str(), words.data());
      _exit(127);
    }
  }
  ~BackgroundTool() {
    if (pid_ > 0) end(SIGKILL);
  }
  BackgroundTool(const BackgroundTool&) = delete;
  BackgroundTool& operator=(const BackgroundTool&) = delete;

  pid_t pid() const { return pid_; }
  // Sends the signal and waits for the end. Returns the exit status, or minus the signal that ended
  // it.
  int end(int signal_number) {
    kill(pid_, signal_number);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// The output of the command on a terminal of so many columns.
inline std::string run_on_terminal(const std::string& arguments, unsigned short columns = 80,
                                   const std::string& environment = "TERM=xterm") {
  setenv("OCTET_HISTORY", "none", 1);
  const std::string command = environment + " " + tool_path() + " " + arguments;
  winsize size{};
  size.ws_col = columns;
  size.ws_row = 24;
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  std::string shown;
  char buffer[4096];
  for (ssize_t read_bytes = 1; read_bytes > 0;) {  // EIO when the other side is closed
    read_bytes = read(terminal, buffer, sizeof buffer);
    if (read_bytes > 0) shown.append(buffer, static_cast<std::size_t>(read_bytes));
  }
  close(terminal);
  waitpid(pid, nullptr, 0);
  return shown;
}

// Polls `done` for as long as a slow machine may need. Returns whether it became true.
inline bool wait_until(const std::function<bool()>& done) {
  constexpr int kTries = 3000;
  for (int i = 0; i < kTries; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// As ps shows it: 'T' of a process that is stopped, 'Z' of one whose end nobody has waited for; 0: there is none.
inline char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? '\0' : stat.at(name_end + 2);
}

// Whether a process is gone, or is a zombie that its parent has not reaped.
inline bool has_ended(pid_t pid) {
  const char state = state_of(pid);
  return state == '\0' || state == 'Z';
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_file(entry.path() / "stat");
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    // ") S 123 ...": the state, then the parent's id.
    if (std::atoi(stat.c_str() + name_end + 4) == parent) children.push_back(std::stoi(name));
  }
  return children;
}

}  // namespace octet::tool
