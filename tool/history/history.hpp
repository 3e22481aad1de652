// The history: every row that `octet bench` measured on this machine, in one SQLite file. Many
// processes may write at once, and written rows survive a crash.
#pragma once

#include "tool/results/result_kind.hpp"
#include "tool/history/sqlite.hpp"

#include <memory>
#include <optional>
#include <string>

namespace octet::tool {

// $OCTET_HISTORY, else octet/history.sqlite in $XDG_STATE_HOME or ~/.local/state. Returns nullopt
// if OCTET_HISTORY is empty, off, none, no or 0. Throws DatabaseError if there is no home folder
// either.
std::optional<std::string> history_path();
// For people: "~/.local/state/octet/history.sqlite", "off", or why there is none.
std::string history_place();

// Opens a history. If the file is missing or empty, creates it with `create` and returns null
// without. Throws DatabaseError that names the file if it is some other file or was written by a
// newer octet.
std::unique_ptr<Database> open_history(const std::string& path, bool create);

// Writes the rows of one run.
class HistoryWriter {
 public:
  HistoryWriter(const ResultKind& kind, const bench::Row& header);

  // Returns one line that says why the row was not written. Returns nullopt if it was written, if
  // the history is off, and if an earlier row could not be written.
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
