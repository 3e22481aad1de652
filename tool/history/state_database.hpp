// Files that octet keeps for a user: SQLite databases in the user's state folder, which many processes may write
// at once.
#pragma once

#include "tool/history/sqlite.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace octet::tool {

// A kind of such a file.
struct StateKind {
  const char* what;          // "a history of octet"
  const char* file;          // "history.sqlite"
  std::int64_t application;  // in the header of the file
  std::int64_t schema;
  const char* tables;
  // Readers do not wait for writers, and a reader needs to write beside the file. Otherwise it may be read from a
  // folder that is read-only.
  bool write_ahead_log;
  const char* way_out;  // for who has no home folder
};

// A non-empty variable; null if there is none.
const char* environment(const char* name);

// octet/FILE in $XDG_STATE_HOME or ~/.local/state. Throws DatabaseError if there is no home folder either: one that is
// missing is not created.
std::string state_path(const StateKind& kind);

// A path for people: "~/.local/state/octet/history.sqlite".
std::string below_home(const std::string& path);

// Opens the file. If it is missing or empty, creates it with `create` and returns null without. Throws DatabaseError
// that names the file if it is something else or another version of octet wrote it.
std::unique_ptr<Database> open_state(const StateKind& kind, const std::string& path, bool create);

}  // namespace octet::tool
