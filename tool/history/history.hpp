// The history: every row that `octet bench` measured on this machine, in one SQLite file. Many
// processes may write at once, and what was written survives whatever ends them.
#pragma once

#include "tool/results/result_kind.hpp"
#include "tool/history/sqlite.hpp"

#include <memory>
#include <optional>
#include <string>

namespace octet::tool {

// $OCTET_HISTORY, else octet/history.sqlite in $XDG_STATE_HOME or ~/.local/state. Nothing where
// OCTET_HISTORY is empty or "none". Throws DatabaseError where there is no home either.
std::optional<std::string> history_path();

// Opens a history, makes it where `create` says so and the file is missing or empty; null where it
// is empty and not to be made. Throws DatabaseError that names the file where it is another one or one
// of a newer octet.
std::unique_ptr<Database> open_history(const std::string& path, bool create);

// Writes the rows of one run.
class HistoryWriter {
 public:
  HistoryWriter(const ResultKind& kind, const bench::Row& header);

  // Why the row was not written, in a line; nothing where it was, where the history is off, and
  // where an earlier row could not be written.
  std::optional<std::string> add(const bench::Row& row);

 private:
  void write(const bench::Row& row);
  std::int64_t begin_run(const bench::Record& record);

  const ResultKind& kind_;
  bench::Row header_;
  std::unique_ptr<Database> database_;  // opened by the first row
  std::optional<std::int64_t> run_;
  bool off_ = false;
};

}  // namespace octet::tool
