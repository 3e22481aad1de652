// Where the history is, and whether a file is one.
#include "tool/history/history.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace octet::tool {
namespace {

constexpr std::int64_t kApplication = 0x6f637465;  // "octe", in the header of the file
constexpr std::int64_t kSchema = 1;

// `record` has the whole row as JSON; the other columns are what it is found by.
constexpr const char* kTables = R"(
  CREATE TABLE runs (
    id INTEGER PRIMARY KEY, began TEXT NOT NULL, commit_id TEXT NOT NULL,
    device_sources TEXT NOT NULL, device TEXT NOT NULL, op TEXT NOT NULL, unit TEXT NOT NULL);
  CREATE TABLE results (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), time TEXT NOT NULL,
    test_id TEXT NOT NULL, shape TEXT NOT NULL, dtype TEXT NOT NULL, settings TEXT NOT NULL,
    result TEXT NOT NULL, rate REAL, record TEXT NOT NULL);
  CREATE INDEX results_by_run ON results(run);
  CREATE INDEX results_by_shape ON results(shape);
)";

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

bool is_empty(Database& database) {
  return database.whole("SELECT count(*) FROM sqlite_master") == 0 &&
         database.whole("PRAGMA application_id") == 0;
}

void require_history(Database& database) {
  if (database.whole("PRAGMA application_id") != kApplication) {
    throw DatabaseError(fmt::format("{}: is a database of something else", database.path()),
                        SQLITE_NOTADB);
  }
  const std::int64_t schema = database.whole("PRAGMA user_version");
  if (schema != kSchema) {
    throw DatabaseError(
        fmt::format("{}: has schema {}, this octet knows {}: another version of octet wrote it",
                    database.path(), schema, kSchema),
        SQLITE_NOTADB);
  }
}

// A process that makes the file at the same time holds it in ways SQLite does not wait for.
void use_write_ahead_log(Database& database) {
  constexpr int kTries = 200;
  for (int i = 0;; ++i) {
    try {
      return database.execute("PRAGMA journal_mode = WAL");
    } catch (const DatabaseError& error) {
      if (error.code() != SQLITE_BUSY || i == kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

void make_tables(Database& database) {
  use_write_ahead_log(database);
  Transaction transaction(database);
  if (!is_empty(database)) return;  // another process was quicker
  database.execute(kTables);
  database.execute(fmt::format("PRAGMA application_id = {}", kApplication));
  database.execute(fmt::format("PRAGMA user_version = {}", kSchema));
  transaction.commit();
}

void make_parent(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) throw DatabaseError(fmt::format("{}: {}", path, error.message()), SQLITE_CANTOPEN);
}

}  // namespace

std::optional<std::string> history_path() {
  if (const char* given = std::getenv("OCTET_HISTORY"); given != nullptr) {
    const std::string path = given;
    return path.empty() || path == "none" ? std::nullopt : std::optional(path);
  }
  if (const char* state = environment("XDG_STATE_HOME")) {
    return fmt::format("{}/octet/history.sqlite", state);
  }
  if (const char* home = environment("HOME")) {
    return fmt::format("{}/.local/state/octet/history.sqlite", home);
  }
  throw DatabaseError("none of OCTET_HISTORY, XDG_STATE_HOME and HOME is set", SQLITE_CANTOPEN);
}

std::unique_ptr<Database> open_history(const std::string& path, bool create) {
  if (create) make_parent(path);
  auto database = std::make_unique<Database>(path, create);
  if (is_empty(*database)) {
    if (!create) return nullptr;
    make_tables(*database);
  }
  require_history(*database);
  // Enough for a process that is killed; a power cut may cost the last rows, never the file.
  database->execute("PRAGMA synchronous = NORMAL");
  return database;
}

}  // namespace octet::tool
