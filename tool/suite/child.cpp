#include "tool/suite/child.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace octet::tool {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Runs between fork and exec: must not allocate or lock.
[[noreturn]] void become(const char* program, char* const* words, char* const* environment, int log,
                         pid_t parent, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the line above
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(program, words, environment);
  const char message[] = " could not be started\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, words[0], std::strlen(words[0]));
  written = write(STDERR_FILENO, message, sizeof message - 1);
  _exit(127);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// If a name appears twice, the first counts, so `more` overrides our own environment.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace

Signals::Signals() {
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, no exit status would be kept
  sigemptyset(&waited_);
  sigaddset(&waited_, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&waited_, number);  // NOLINT: nohup's choice stays
  }
  sigprocmask(SIG_BLOCK, &waited_, &before_);
}

Signals::~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int Signals::wait(double seconds) const {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  const int number = sigtimedwait(&waited_, nullptr, &time);
  return number < 0 ? 0 : number;
}

pid_t start_child(const ChildCommand& command, const Signals& signals) {
  const bool is_self = command.program.empty();
  std::vector<std::string> words{is_self ? "octet" : command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = environment_with(command.environment);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const int log = open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (log < 0) fail(command.log);
  const char* program = is_self ? "/proc/self/exe" : command.program.c_str();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(program, word_pointers.data(), environment_pointers.data(), log, parent,
           signals.before());
  }
  const int reason = errno;
  close(log);
  errno = reason;
  if (child < 0) fail("a process could not be started");
  setpgid(child, child);  // as the child does: whichever is first, the group is there from now on
  return child;
}

void signal_child(pid_t child, int number) { kill(-child, number); }

void pause_with(const std::vector<pid_t>& children) {
  for (const pid_t child : children) signal_child(child, SIGSTOP);
  raise(SIGSTOP);
  for (const pid_t child : children) signal_child(child, SIGCONT);
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return fmt::format("killed by signal {} ({})", number, strsignal(number));
  }
  const int status = WEXITSTATUS(wait_status);
  return status == 0 ? "" : fmt::format("exit status {}", status);
}

ChildEnd run_child(const ChildCommand& command, const Signals& signals) {
  constexpr double kLookSeconds = 1;
  ChildEnd end;
  const pid_t child = start_child(command, signals);
  while (waitpid(child, &end.wait_status, WNOHANG) == 0) {
    const int number = signals.wait(kLookSeconds);
    if (number == 0 || number == SIGCHLD) continue;
    if (number == SIGTSTP) {
      pause_with({child});
      continue;
    }
    signal_child(child, end.stopped_by == 0 ? number : SIGKILL);
    end.stopped_by = number;
  }
  return end;
}

}  // namespace octet::tool
