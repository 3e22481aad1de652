#include "tool/suite/suite_runner.hpp"

#include "tool/options/parse.hpp"

#include <octet/device.hpp>

#include <fmt/format.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace octet::tool {
namespace {

// The name in CUDA_VISIBLE_DEVICES of the device that is cuda:index here.
std::string visible_name(std::int64_t index) {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return std::to_string(index);
  std::istringstream names(given);
  std::string name;
  for (std::int64_t i = 0; i <= index; ++i) std::getline(names, name, ',');
  return name;
}

std::vector<Job> all_jobs(const std::vector<Task>& tasks) {
  std::vector<Job> jobs;
  for (const Task& task : tasks) {
    for (const Job& job : jobs_of(task)) jobs.push_back(job);
  }
  return jobs;
}

// The last line of a log usually says why the program ended.
std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

std::vector<std::string> arguments_of(const Job& job, const Slot& slot, const std::string& output,
                                      std::optional<double> seconds_left) {
  std::vector<std::string> words{"bench", job.task->op};
  words.insert(words.end(), job.task->arguments.begin(), job.task->arguments.end());
  words.insert(words.end(), {"--device", slot.device, "-o", output});
  if (job.task->shards > 1) {
    words.insert(words.end(), {"--num-shards", std::to_string(job.task->shards), "--shard-id",
                               std::to_string(job.shard)});
  }
  if (seconds_left) {
    words.insert(words.end(), {"--max-seconds", fmt::format("{:.3f}", *seconds_left)});
  }
  return words;
}

}  // namespace

std::vector<Slot> suite_slots(std::optional<std::int64_t> gpus, std::int64_t cpu_slots) {
  const std::int64_t there = cuda_device_count();
  if (gpus && *gpus > there) {
    refuse_usage("-n {}: this machine has {}; -n 0 runs on the CPU", *gpus,
                 counted(static_cast<std::size_t>(there), "GPU"));
  }
  std::vector<Slot> slots;
  // A process sees only its own GPU, as cuda:0. So a row is the same on whichever GPU it was
  // measured, and a run on another one can keep it.
  for (std::int64_t i = 0; i < gpus.value_or(there); ++i) {
    slots.push_back(
        {fmt::format("cuda:{}", i), "cuda:0", {"CUDA_VISIBLE_DEVICES=" + visible_name(i)}});
  }
  if (slots.empty()) slots.assign(static_cast<std::size_t>(cpu_slots), {"cpu", "cpu", {}});
  return slots;
}

SuiteRunner::SuiteRunner(const std::vector<Task>& tasks, const std::vector<Slot>& slots,
                         const SuiteFolder& folder, const RunClock& clock)
    : slots_(slots),
      folder_(folder),
      clock_(clock),
      watch_(bench::steady_clock()),
      jobs_(all_jobs(tasks)),
      progress_(std::vector<double>(jobs_.size(), 1)) {}

void SuiteRunner::run() {
  constexpr double kRedrawSeconds = 1;
  fill_slots();
  while (!running_.empty()) {
    show_progress();
    const int number = signals_.wait(kRedrawSeconds);
    if (number == SIGTSTP) {
      std::vector<pid_t> children;
      for (const Running& running : running_) children.push_back(running.pid);
      pause_with(children);
    } else if (number != 0 && number != SIGCHLD) {
      stop(number);
    }
    reap();
    fill_slots();
  }
  progress_.clear();
}

bool SuiteRunner::may_start() const {
  return next_ < jobs_.size() && stopped_by_ == 0 && !clock_.is_over();
}

void SuiteRunner::fill_slots() {
  for (const Slot& slot : slots_) {
    const bool taken = std::any_of(running_.begin(), running_.end(),
                                   [&](const Running& other) { return other.slot == &slot; });
    if (!taken && may_start()) start(jobs_[next_++], slot);
  }
}

void SuiteRunner::start(const Job& job, const Slot& slot) {
  const ChildCommand command{
      arguments_of(job, slot, folder_.results(job), clock_.seconds_left()),
      slot.environment,
      folder_.log(job),
  };
  running_.push_back({job, &slot, start_child(command, signals_), watch_.seconds()});
  if (progress_.on_terminal()) return;  // the bar shows it
  fmt::print("{} starts on {}\n", job.name(), slot.name);
  std::fflush(stdout);
}

void SuiteRunner::reap() {
  std::erase_if(running_, [&](const Running& running) {
    int wait_status = 0;
    if (waitpid(running.pid, &wait_status, WNOHANG) != running.pid) return false;
    finish(running, wait_status);
    return true;
  });
}

void SuiteRunner::finish(const Running& running, int wait_status) {
  const Job& job = running.job;
  ++done_;
  folder_.merge(*job.task);
  const Checks checks = folder_.checks(job);
  // Status 1 means that rows did not pass; these are counted.
  const bool rows_tell =
      WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitFailed && !checks.all_passed();
  const std::string end = rows_tell ? "" : describe_end(wait_status);
  progress_.clear();
  fmt::print("{}/{} {} on {}: {}, {}{}\n", done_, jobs_.size(), job.name(), running.slot->name,
             checks.text(), in_words(watch_.seconds() - running.began),
             end.empty() ? "" : "; " + end);
  std::fflush(stdout);
  if (!end.empty() && stopped_by_ == 0) {
    const std::string log = folder_.log(job);
    deaths_.push_back(fmt::format("{} died: {}: {}; what it printed is in {}", job.name(), end,
                                  last_line(log), log));
  }
}

// Rows are kept as they are measured, so a process can be stopped at any time. A second signal
// kills it.
void SuiteRunner::stop(int signal_number) {
  for (const Running& running : running_) {
    signal_child(running.pid, stopped_by_ == 0 ? SIGTERM : SIGKILL);
  }
  stopped_by_ = signal_number;
}

void SuiteRunner::show_progress() {
  progress_.show(done_, running_.size() == 1 ? running_[0].job.name()
                                             : fmt::format("{} running", running_.size()));
}

}  // namespace octet::tool
