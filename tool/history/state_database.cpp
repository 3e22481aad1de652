#include "tool/history/state_database.hpp"

#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace octet::tool {
namespace {

std::string home_folder(const StateKind& kind) {
  const char* home = environment("HOME");
  if (home == nullptr) {
    throw DatabaseError(fmt::format("neither XDG_STATE_HOME nor HOME is set; {}", kind.way_out),
                        SQLITE_CANTOPEN);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(home, ignored)) {
    throw DatabaseError(fmt::format("there is no home folder {}; {}", home, kind.way_out),
                        SQLITE_CANTOPEN);
  }
  return home;
}

bool is_empty(Database& database) {
  return database.whole("SELECT count(*) FROM sqlite_master") == 0 &&
         database.whole("PRAGMA application_id") == 0;
}

void require_kind(const StateKind& kind, Database& database) {
  if (database.whole("PRAGMA application_id") != kind.application) {
    throw DatabaseError(fmt::format("{}: is a database of something else", database.path()),
                        SQLITE_NOTADB);
  }
  const std::int64_t schema = database.whole("PRAGMA user_version");
  if (schema != kind.schema) {
    throw DatabaseError(
        fmt::format("{}: has schema {}, this octet knows {}: another version of octet wrote it",
                    database.path(), schema, kind.schema),
        SQLITE_NOTADB);
  }
}

// Retries, because SQLite does not wait for locks that another process holds while it creates the
// file.
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

void make_tables(const StateKind& kind, Database& database) {
  if (kind.write_ahead_log) use_write_ahead_log(database);
  Transaction transaction(database);
  if (!is_empty(database)) return;  // another process was faster
  database.execute(kind.tables);
  database.execute(fmt::format("PRAGMA application_id = {}", kind.application));
  database.execute(fmt::format("PRAGMA user_version = {}", kind.schema));
  transaction.commit();
}

void make_parent(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) throw DatabaseError(fmt::format("{}: {}", path, error.message()), SQLITE_CANTOPEN);
}

}  // namespace

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

std::string state_path(const StateKind& kind) {
  if (const char* state = environment("XDG_STATE_HOME")) {
    return fmt::format("{}/octet/{}", state, kind.file);
  }
  return fmt::format("{}/.local/state/octet/{}", home_folder(kind), kind.file);
}

std::string below_home(const std::string& path) {
  const char* home = environment("HOME");
  const std::string start = home == nullptr ? "" : home + std::string("/");
  const bool is_at_home = !start.empty() && path.rfind(start, 0) == 0;
  return is_at_home ? "~/" + path.substr(start.size()) : path;
}

std::unique_ptr<Database> open_state(const StateKind& kind, const std::string& path, bool create) {
  if (const std::string what = special_file(path); !what.empty()) {
    throw DatabaseError(fmt::format("{}: is {}, wanted {}", path, what, kind.what),
                        SQLITE_CANTOPEN);
  }
  if (create) make_parent(path);
  auto database = std::make_unique<Database>(path, create);
  if (is_empty(*database)) {
    if (!create) return nullptr;
    make_tables(kind, *database);
  }
  require_kind(kind, *database);
  return database;
}

}  // namespace octet::tool
