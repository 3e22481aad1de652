#include "tool/suite/suite_folder.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"
#include "tool/results/result_file.hpp"
#include "tool/results/stored_results.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace octet::tool {
namespace {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return;
  refuse_usage("-d {}: {}; wanted a folder that can be written", path,
               error ? error.message() : std::strerror(ENOTDIR));
}

}  // namespace

std::string Job::name() const {
  return task->shards == 1 ? task->label : fmt::format("{}.{}", task->label, shard);
}

std::vector<Job> jobs_of(const Task& task) {
  std::vector<Job> jobs;
  jobs.reserve(static_cast<std::size_t>(task.shards));
  for (int shard = 0; shard < task.shards; ++shard) jobs.push_back({&task, shard});
  return jobs;
}

SuiteFolder::SuiteFolder(const std::string& path, const std::vector<Task>& tasks) : path_(path) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  for (const Task& task : tasks) require_results_or_nothing("-d", results(task));
  make_folder(path_);
  lock();
  make_folder(path_ + "/logs");
  if (std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.shards > 1; })) {
    make_folder(path_ + "/shards");
  }
}

SuiteFolder::~SuiteFolder() {
  if (lock_ >= 0) close(lock_);
}

// Children inherit the lock: it is released when this process and its last child have ended.
void SuiteFolder::lock() {
  lock_ = open((path_ + "/.lock").c_str(), O_RDWR | O_CREAT, 0666);  // NOLINT: for the children too
  if (lock_ < 0) {
    refuse_usage("-d {}: {}; wanted a folder that can be written", path_, std::strerror(errno));
  }
  if (take_lock(lock_)) return;
  const int reason = errno;
  close(lock_);
  lock_ = -1;
  if (reason == EWOULDBLOCK) refuse_usage("-d {}: in use by another suite", path_);
  refuse_usage("-d {}: {}/.lock: {}", path_, path_, std::strerror(reason));
}

std::string SuiteFolder::log(const Job& job) const {
  return fmt::format("{}/logs/{}.log", path_, job.name());
}

std::string SuiteFolder::logs(const Task& task) const {
  return fmt::format("{}/logs/{}{}.log", path_, task.label, task.shards == 1 ? "" : ".*");
}

std::string SuiteFolder::results(const Task& task) const {
  return fmt::format("{}/{}.csv", path_, task.label);
}

// Files of a shard do not end in .csv, so that a reader of every CSV in the folder sees each row
// once.
std::string SuiteFolder::results(const Job& job) const {
  return job.task->shards == 1 ? results(*job.task)
                               : fmt::format("{}/shards/{}", path_, job.name());
}

std::vector<std::string> SuiteFolder::files(const Job& job) const {
  return {results(job), partial_path(results(job))};
}

Checks SuiteFolder::checks(const Job& job) const {
  return count_checks(rows_of(merge_stored(files(job)), job.task->cases));
}

Checks SuiteFolder::checks(const Task& task) const {
  const std::string path = results(task);
  return count_checks(rows_of(merge_stored({path, partial_path(path)}), task.cases));
}

void SuiteFolder::merge(const Task& task) const {
  if (task.shards == 1) return;  // the job wrote them there itself
  std::vector<std::string> paths;
  for (const Job& job : jobs_of(task)) {
    for (std::string& path : files(job)) paths.push_back(std::move(path));
  }
  const StoredResults merged = merge_stored(paths);
  if (merged.rows.empty()) return;
  if (const int reason = write_stored(results(task), merged); reason != 0) {
    refuse_usage("-d {}: {}: {}; the rows are in {}/shards", path_, results(task),
                 std::strerror(reason), path_);
  }
}

}  // namespace octet::tool
