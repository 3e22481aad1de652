// The settings of a row: how it was measured, apart from which case it is. Two rows of one case may
// differ in them.
#pragma once

#include "bench/report/record.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct SettingChange {
  std::string name;  // "threads", "--iters"
  std::string before;
  std::string after;
  // Whether rows that differ in this can be compared but not judged: the difference of their times
  // says nothing about the code. True for threads, backend, clock mode and options of the problem,
  // false for commit, seed, and how often and how long a case was timed.
  bool decides = false;

  std::string text() const;  // "threads 1, now 2"
  friend bool operator==(const SettingChange&, const SettingChange&) = default;
};

// The backends that a command asked for, by options or by variables of the environment:
// "--backend cublaslt", or "not forced".
std::string forced_backends(const std::string& command);

// Every setting that differs, those that decide first.
std::vector<SettingChange> setting_changes(const bench::Record& before, const bench::Record& after);

// "threads 1, now 2; seed 1, now 3; and 2 more": each change once.
std::string changes_text(const std::vector<SettingChange>& changes);

}  // namespace octet::tool
