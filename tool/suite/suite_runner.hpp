// Runs the tasks of a suite, each shard in a process of its own.
#pragma once

#include "tool/console.hpp"
#include "tool/options/timing_options.hpp"
#include "tool/progress.hpp"
#include "tool/suite/child.hpp"
#include "tool/suite/suite_folder.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// A place where tasks of a suite run, one at a time.
struct Slot {
  std::string name;                      // "cuda:3", "cpu"
  std::string device;                    // the value of --device in the slot
  std::vector<std::string> environment;  // "NAME=value"
};

// A slot per GPU, or `cpu_slots` on the CPU if there is no GPU or none is wanted. Throws UsageError
// if this machine has fewer GPUs than wanted.
std::vector<Slot> suite_slots(std::optional<std::int64_t> gpus, std::int64_t cpu_slots);

class SuiteRunner {
 public:
  SuiteRunner(const std::vector<Task>& tasks, const std::vector<Slot>& slots,
              const SuiteFolder& folder, const RunClock& clock);

  // Returns when every job has run, the time is over or a signal arrived. The rows are then in the
  // files of the tasks.
  void run();

  std::size_t not_started() const { return jobs_.size() - next_; }
  int stopped_by() const { return stopped_by_; }  // a signal, or 0
  // A line for every job that did not finish, with the name of its log.
  const std::vector<std::string>& deaths() const { return deaths_; }

 private:
  struct Running {
    Job job;
    const Slot* slot;
    pid_t pid;
    double began;
  };

  bool may_start() const;
  void fill_slots();
  void start(const Job& job, const Slot& slot);
  void reap();
  void finish(const Running& running, int wait_status);
  void stop(int signal_number);
  void show_progress();

  const std::vector<Slot>& slots_;
  const SuiteFolder& folder_;
  const RunClock& clock_;
  Signals signals_;
  bench::Clock watch_;
  std::vector<Job> jobs_;
  std::size_t next_ = 0;
  std::size_t done_ = 0;
  std::vector<Running> running_;
  int stopped_by_ = 0;
  std::vector<std::string> deaths_;
  Progress progress_;
};

}  // namespace octet::tool
