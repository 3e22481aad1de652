#include "tool/history/history.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/files.hpp"
#include "tool/results/json_rows.hpp"
#include "tool/results/provenance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

namespace octet::tool {
namespace {

constexpr std::int64_t kApplication = 0x6f637465;  // "octe", in the header of the file
constexpr std::int64_t kSchema = 1;

// `record` is the whole row as JSON; the other columns are for lookup.
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

// A file with such a name is given as ./off.
bool turns_it_off(std::string_view given) {
  constexpr std::array<std::string_view, 5> kOff{"", "off", "none", "no", "0"};
  return std::any_of(kOff.begin(), kOff.end(),
                     [&](std::string_view off) { return same_name(off, given); });
}

// A missing home folder is not created: whoever removed it, or never made it, wants no files there.
std::string home_folder() {
  constexpr std::string_view kWayOut =
      "OCTET_HISTORY=FILE names another place, OCTET_HISTORY=off turns it off";
  const char* home = environment("HOME");
  if (home == nullptr) {
    throw DatabaseError(fmt::format("neither XDG_STATE_HOME nor HOME is set; {}", kWayOut),
                        SQLITE_CANTOPEN);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(home, ignored)) {
    throw DatabaseError(fmt::format("there is no home folder {}; {}", home, kWayOut),
                        SQLITE_CANTOPEN);
  }
  return home;
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

void make_tables(Database& database) {
  use_write_ahead_log(database);
  Transaction transaction(database);
  if (!is_empty(database)) return;  // another process was faster
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

// "NVIDIA H200", or "Intel(R) Xeon(R) Processor, 2 threads"
std::string device_of(const bench::Record& record) {
  if (record.at("Platform") == "cuda") return record.at("GPU");
  return fmt::format("{}, {} threads", record.at("CPU"), record.at("Threads"));
}

}  // namespace

std::optional<std::string> history_path() {
  if (const char* given = std::getenv("OCTET_HISTORY"); given != nullptr) {
    return turns_it_off(given) ? std::nullopt : std::optional<std::string>(given);
  }
  if (const char* state = environment("XDG_STATE_HOME")) {
    return fmt::format("{}/octet/history.sqlite", state);
  }
  return fmt::format("{}/.local/state/octet/history.sqlite", home_folder());
}

std::string history_place() {
  try {
    const auto path = history_path();
    if (!path) return "off";
    const char* home = environment("HOME");
    const std::string start = home == nullptr ? "" : home + std::string("/");
    const bool is_at_home = !start.empty() && path->rfind(start, 0) == 0;
    return is_at_home ? "~/" + path->substr(start.size()) : *path;
  } catch (const DatabaseError& error) {
    return fmt::format("off ({})", error.what());
  }
}

std::unique_ptr<Database> open_history(const std::string& path, bool create) {
  if (const std::string what = special_file(path); !what.empty()) {
    throw DatabaseError(fmt::format("{}: is {}, wanted a history of octet", path, what),
                        SQLITE_CANTOPEN);
  }
  if (create) make_parent(path);
  auto database = std::make_unique<Database>(path, create);
  if (is_empty(*database)) {
    if (!create) return nullptr;
    make_tables(*database);
  }
  require_history(*database);
  // Enough if the process is killed; a power cut may lose the last rows, but never corrupts the
  // file.
  database->execute("PRAGMA synchronous = NORMAL");
  return database;
}

HistoryWriter::HistoryWriter(const ResultKind& kind, const bench::Row& header)
    : kind_(kind), header_(header) {}

std::optional<std::string> HistoryWriter::add(const bench::Row& row) {
  if (off_) return std::nullopt;
  try {
    write(row);
    return std::nullopt;
  } catch (const DatabaseError& error) {
    off_ = true;
    return fmt::format("the history is not written: {}", error.what());
  }
}

// The first row creates the run, so a run that measured nothing leaves no trace.
void HistoryWriter::write(const bench::Row& row) {
  if (!database_) {
    const auto path = history_path();
    off_ = !path;
    if (off_) return;
    database_ = open_history(*path, true);
  }
  const bench::Record record(header_, row);
  Transaction transaction(*database_);
  const std::int64_t run = run_ ? *run_ : begin_run(record);
  Statement(
      *database_,
      "INSERT INTO results (run, time, test_id, shape, dtype, settings, result, rate, record) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
      .give(run)
      .give(utc_now())
      .give(record.at("TestID"))
      .give(shape_of(kind_, record))
      .give(record.at("Dtype"))
      .give(settings_of(record.at("Command")))
      .give(record.at("Check"))
      .give(rate_of(kind_, record))
      .give(row_as_json(header_, row))
      .step();
  transaction.commit();
  run_ = run;
}

std::int64_t HistoryWriter::begin_run(const bench::Record& record) {
  Statement(*database_,
            "INSERT INTO runs (began, commit_id, device_sources, device, op, unit) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      .give(utc_now())
      .give(record.at("Commit"))
      .give(record.at("Device Sources"))
      .give(device_of(record))
      .give(kind_.op)
      .give(kind_.unit)
      .step();
  return database_->last_id();
}

}  // namespace octet::tool
