// Runs the tasks of a suite, each shard in a process of its own.
#pragma once

#include "tool/suite/child.hpp"
#include "tool/console.hpp"
#include "tool/suite/suite_folder.hpp"
#include "tool/suite/suite_slots.hpp"
#include "tool/options/timing_options.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

class SuiteRunner {
 public:
  SuiteRunner(const std::vector<Task>& tasks, const std::vector<Slot>& slots,
              const SuiteFolder& folder, const RunClock& clock);

  // Returns when every job has been run, the time is over or a signal asked for the end. Rows are
  // then in the files of the tasks.
  void run();

  std::size_t not_begun() const { return jobs_.size() - next_; }
  int stopped_by() const { return stopped_by_; }  // a signal, or 0
  // A line for every job that did not come to its end, with the name of its log.
  const std::vector<std::string>& deaths() const { return deaths_; }

 private:
  struct Running {
    Job job;
    const Slot* slot;
    pid_t pid;
    double began;
  };

  bool may_begin() const;
  void fill_slots();
  void begin(const Job& job, const Slot& slot);
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
