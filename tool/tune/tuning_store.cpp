#include "tool/tune/tuning_store.hpp"

#include "tool/console.hpp"
#include "tool/history/state_database.hpp"
#include "tool/results/files.hpp"
#include "tool/results/provenance.hpp"

#include "bench/report/record.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace octet::tool {
namespace {

constexpr const char* kTableEnding = ".table";

constexpr const char* kTables = R"(
  CREATE TABLE entries (
    id INTEGER PRIMARY KEY, problem TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL,
    kernels TEXT NOT NULL, implementation TEXT NOT NULL, configuration TEXT NOT NULL,
    usual_implementation TEXT NOT NULL, usual_configuration TEXT NOT NULL, gain REAL,
    time TEXT NOT NULL, commit_id TEXT NOT NULL,
    UNIQUE (problem, device, driver, kernels));
  CREATE TABLE trials (
    entry INTEGER NOT NULL REFERENCES entries(id), implementation TEXT NOT NULL,
    configuration TEXT NOT NULL, predicted REAL, result TEXT NOT NULL);
  CREATE INDEX trials_by_entry ON trials(entry);
)";

constexpr StateKind kStore{
    .what = "a tuning store of octet",
    .file = "tuning.sqlite",
    .application = 0x6f637474,  // "octt"
    .schema = 1,
    .tables = kTables,
    .write_ahead_log = false,
    .way_out = "--store FILE or OCTET_TUNING_STORE=FILE names another place"};

constexpr const char* kColumns =
    "SELECT id, problem, device, driver, kernels, implementation, configuration, "
    "usual_implementation, usual_configuration, gain, time, commit_id FROM entries ";

constexpr const char* kSameKey = "problem = ?1 AND device = ?2 AND driver = ?3 AND kernels = ?4";

TunedEntry entry_of(const Statement& row) {
  TunedEntry entry;
  entry.id = row.whole(0);
  entry.key = {row.text(1), row.text(2), row.text(3), row.text(4)};
  entry.choice = {row.text(5), row.text(6)};
  entry.usual = {row.text(7), row.text(8)};
  entry.gain = row.real(9);
  entry.time = row.text(10);
  entry.commit = row.text(11);
  return entry;
}

void remove_where(Database& database, const std::string& condition,
                  const std::vector<std::string>& values) {
  for (const std::string& from :
       {"DELETE FROM trials WHERE entry IN (SELECT id FROM entries WHERE " + condition + ")",
        "DELETE FROM entries WHERE " + condition}) {
    Statement statement(database, from);
    for (const std::string& value : values) statement.give(value);
    statement.step();
  }
}

template <class Field, class Value>
std::optional<TunedEntry> found_in(const std::vector<TunedEntry>& entries, Field field,
                                   const Value& value) {
  const auto found = std::ranges::find(entries, value, field);
  return found == entries.end() ? std::nullopt : std::optional(*found);
}

// The table beside a store; no entries where there is none. Throws DatabaseError if something else is there.
TuningEntries table_beside(const std::string& store) {
  const std::string path = table_path(store);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    return read_table(path).entries;
  } catch (const Error& error) {
    throw DatabaseError(
        fmt::format("{}; the table of {} belongs there, and is not written over it: move it away, "
                    "or give another store",
                    error.what(), store),
        SQLITE_CANTOPEN);
  }
}

}  // namespace

std::string store_path(const std::string& given) {
  if (!given.empty()) return given;
  const char* named = environment("OCTET_TUNING_STORE");
  return named != nullptr ? named : state_path(kStore);
}

std::string table_path(const std::string& store) {
  std::filesystem::path path(store);
  return path.extension() == ".sqlite" ? path.replace_extension(kTableEnding).string()
                                       : store + kTableEnding;
}

std::string explain_store(const DatabaseError& error) {
  constexpr int kBasicCode = 0xff;  // SQLite's extended codes have more above it
  if ((error.code() & kBasicCode) != SQLITE_CORRUPT) return error.what();
  return fmt::format("{}; move it away: octet tune takes in what the table beside it has",
                     error.what());
}

TuningStore::TuningStore(const std::string& path, StoreUse use) : path_(bench::link_target(path)) {
  // Without an ending, "job" and "job.sqlite" would have one table.
  const auto ending = std::filesystem::path(path_).extension();
  if (ending == kTableEnding || (ending.empty() && !std::filesystem::is_directory(path_))) {
    throw DatabaseError(
        fmt::format(
            "{}: a tuning store is an SQLite file with a name such as job.sqlite; octet tune "
            "import takes a table into one",
            path),
        SQLITE_CANTOPEN);
  }
  std::error_code ignored;
  const bool write = use != StoreUse::read;
  if (write) table_beside(path_);  // refused before a store is made
  if (write || std::filesystem::exists(path_, ignored)) {
    database_ = open_state(kStore, path_, write);
  }
  if (!database_) {  // missing, or an empty file
    for (const auto& [key, choice] : table_beside(path_)) {
      of_table_.push_back({.id = std::ssize(of_table_) + 1, .key = key, .choice = choice});
    }
  }
  if (!write) return;
  database_->execute("PRAGMA foreign_keys = ON");
  // Now, not after minutes of measuring. The table may lack what a killed process had stored.
  Transaction transaction(*database_);
  std::size_t overruled = 0;
  for (const auto& [key, choice] : table_beside(path_)) {
    const auto known = find(key);
    if (!known) insert({.key = key, .choice = choice});
    if (known && !(known->choice == choice)) ++overruled;
  }
  if (overruled > 0 && use != StoreUse::import) {
    fmt::print(stderr,
               "octet: {} had another choice for {} than its store, and has the store's now; octet "
               "tune import takes those of a table\n",
               printable(table_path(path_)), counted(overruled, "problem"));
  }
  write_table();
  transaction.commit();
}

void TuningStore::require_writable() const {
  constexpr const char* kWayOut = "--store or OCTET_TUNING_STORE names another place";
  if (sqlite3_db_readonly(database_->handle(), "main") != 0) {
    throw DatabaseError(fmt::format("{}: may not be written; {}", path_, kWayOut), SQLITE_READONLY);
  }
  // Both the journal of the store and the new table that is renamed into place.
  for (const std::string& file : {path_, bench::link_target(table_path(path_))}) {
    const std::string beside = bench::name_beside(file);
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) {
      throw DatabaseError(fmt::format("{}: its folder may not be written: {}; {}", file,
                                      std::strerror(errno), kWayOut),
                          SQLITE_READONLY);
    }
    ::close(descriptor);
    ::unlink(beside.c_str());
  }
}

std::vector<TunedEntry> TuningStore::entries() const {
  if (!database_) return of_table_;
  std::vector<TunedEntry> result;
  Statement rows(*database_, std::string(kColumns) + "ORDER BY problem, device, driver, kernels");
  while (rows.step()) result.push_back(entry_of(rows));
  return result;
}

std::optional<TunedEntry> TuningStore::find(const TuningKey& key) const {
  if (!database_) return found_in(of_table_, &TunedEntry::key, key);
  Statement rows(*database_, std::string(kColumns) + "WHERE " + kSameKey);
  rows.give(key.problem).give(key.device).give(key.driver).give(key.kernels);
  if (!rows.step()) return std::nullopt;
  return entry_of(rows);
}

std::optional<TunedEntry> TuningStore::find(std::int64_t id) const {
  if (!database_) return found_in(of_table_, &TunedEntry::id, id);
  Statement rows(*database_, std::string(kColumns) + "WHERE id = ?1");
  rows.give(id);
  if (!rows.step()) return std::nullopt;
  TunedEntry entry = entry_of(rows);
  Statement trials(*database_,
                   "SELECT implementation, configuration, predicted, result FROM trials "
                   "WHERE entry = ?1 ORDER BY rowid");
  trials.give(id);
  while (trials.step()) {
    entry.trials.push_back({{trials.text(0), trials.text(1)}, trials.real(2), trials.text(3)});
  }
  return entry;
}

TuningEntries TuningStore::table() const {
  TuningEntries table;
  for (TunedEntry& entry : entries()) table.emplace(std::move(entry.key), std::move(entry.choice));
  return table;
}

void TuningStore::insert(const TunedEntry& entry) {
  remove_where(*database_, kSameKey,
               {entry.key.problem, entry.key.device, entry.key.driver, entry.key.kernels});
  Statement(*database_,
            "INSERT INTO entries (problem, device, driver, kernels, implementation, "
            "configuration, usual_implementation, usual_configuration, gain, time, commit_id) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")
      .give(entry.key.problem)
      .give(entry.key.device)
      .give(entry.key.driver)
      .give(entry.key.kernels)
      .give(entry.choice.implementation)
      .give(entry.choice.configuration)
      .give(entry.usual.implementation)
      .give(entry.usual.configuration)
      .give(entry.gain)
      .give(utc_now())
      .give(commit())
      .step();
  const std::int64_t id = database_->last_id();
  for (const TunedTrial& trial : entry.trials) {
    Statement(*database_,
              "INSERT INTO trials (entry, implementation, configuration, predicted, result) "
              "VALUES (?1, ?2, ?3, ?4, ?5)")
        .give(id)
        .give(trial.choice.implementation)
        .give(trial.choice.configuration)
        .give(trial.predicted)
        .give(trial.result)
        .step();
  }
}

// The table never has an entry that the store has not: it follows what is added, and goes ahead of what is removed.
// So what only the table has came from somebody else, also where a process was killed in between.
void TuningStore::put(const std::vector<TunedEntry>& entries) {
  {
    Transaction transaction(*database_);
    for (const TunedEntry& entry : entries) insert(entry);
    transaction.commit();
  }
  Transaction transaction(*database_);
  write_table();
  transaction.commit();
}

void TuningStore::remove(const std::vector<std::int64_t>& ids) {
  Transaction transaction(*database_);
  for (const std::int64_t id : ids) remove_where(*database_, "id = ?1", {std::to_string(id)});
  write_table();
  transaction.commit();
}

void TuningStore::write_table() {
  const std::string path = table_path(path_);
  const std::string wanted = table_text(table());
  if (text_if_any(path) == wanted) return;
  if (const int reason = bench::replace_file(path, bench::name_beside(path), wanted); reason != 0) {
    throw DatabaseError(fmt::format("{}: {}", path, std::strerror(reason)), SQLITE_CANTOPEN);
  }
}

}  // namespace octet::tool
