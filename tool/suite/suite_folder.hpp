// The folder of a suite: LABEL.csv per task, logs/, and shards/ for tasks with several shards.
#pragma once

#include "tool/suite/tasks.hpp"

#include <string>
#include <vector>

namespace octet::tool {

// One process of a task.
struct Job {
  const Task* task = nullptr;
  int shard = 0;

  std::string name() const;  // "gemm_fp8" or, for a task with several shards, "gemm_fp8.0"
};

class SuiteFolder {
 public:
  // Creates what is missing and locks the folder for this process and its children. Throws
  // UsageError if it cannot be written, holds other files or another suite is using it.
  SuiteFolder(const std::string& path, const std::vector<Task>& tasks);
  ~SuiteFolder();
  SuiteFolder(const SuiteFolder&) = delete;
  SuiteFolder& operator=(const SuiteFolder&) = delete;

  std::string log(const Job& job) const;
  std::string logs(const Task& task) const;  // of all its jobs, as a shell pattern
  std::string results(const Task& task) const;
  std::string results(const Job& job) const;
  // Counts the rows that a job, or all jobs of a task, wrote for the task's cases. Rows from a
  // killed process count; rows of cases that the task no longer has do not.
  Checks checks(const Job& job) const;
  Checks checks(const Task& task) const;
  // Writes the rows of all shards into results(task).
  void merge(const Task& task) const;

 private:
  void lock();
  // The files that may hold rows of a job, the newest last.
  std::vector<std::string> files(const Job& job) const;

  std::string path_;
  int lock_ = -1;
};

std::vector<Job> jobs_of(const Task& task);

}  // namespace octet::tool
