// The folder of a suite: LABEL.csv per task, logs/ and, of tasks in shards, shards/.
#pragma once

#include "tool/suite/tasks.hpp"

#include <string>
#include <vector>

namespace octet::tool {

// One process of a task.
struct Job {
  const Task* task = nullptr;
  int shard = 0;

  std::string name() const;  // "gemm_fp8" or, of a task in shards, "gemm_fp8.0"
};

class SuiteFolder {
 public:
  // Makes what is missing and keeps the folder to this process and its children. Throws UsageError
  // where it cannot be written, something else stands in it or another suite is at work there.
  SuiteFolder(const std::string& path, const std::vector<Task>& tasks);
  ~SuiteFolder();
  SuiteFolder(const SuiteFolder&) = delete;
  SuiteFolder& operator=(const SuiteFolder&) = delete;

  std::string log(const Job& job) const;
  std::string logs(const Task& task) const;  // of all its jobs, as a shell names them
  std::string results(const Task& task) const;
  std::string results(const Job& job) const;
  // Of the rows of the task's cases that a job, or all of its jobs, left. What a killed process left
  // counts as well, rows of cases that the task no longer has do not.
  Checks checks(const Job& job) const;
  Checks checks(const Task& task) const;
  // Writes the rows of all shards into results(task).
  void merge(const Task& task) const;

 private:
  void lock();
  // Where rows of a job may stand, the newest last.
  std::vector<std::string> files(const Job& job) const;

  std::string path_;
  int lock_ = -1;
};

std::vector<Job> jobs_of(const Task& task);

}  // namespace octet::tool
