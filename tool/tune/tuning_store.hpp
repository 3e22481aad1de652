// The tuning store: one SQLite file with what octet tune measured, and beside it the tuning table, which is what the
// library reads. Only octet tune writes them; many processes may at once.
#pragma once

#include "dispatch/tuning_table.hpp"
#include "tool/history/sqlite.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// A candidate and what became of it.
struct TunedTrial {
  TunedChoice choice;
  double predicted = 1;
  std::string result;  // "default", "1.043x", "changes 12 elements", "not tried: predicted 1.4x"
};

// What is known of a problem.
struct TunedEntry {
  std::int64_t id = 0;
  TuningKey key;
  TunedChoice choice;
  TunedChoice usual{};  // the library's own choice; empty where the entry was imported
  double gain = std::numeric_limits<double>::quiet_NaN();  // its time over that of the choice
  std::string time{};
  std::string commit{};
  std::vector<TunedTrial> trials{};
};

// Of a store and its table. import: the table beside it is about to be taken in, whatever it has.
enum class StoreUse { read, write, import };

// What a DatabaseError of a store says, with the way out if there is one.
std::string explain_store(const DatabaseError& error);

// --store, else $OCTET_TUNING_STORE, else octet/tuning.sqlite in the state folder.
std::string store_path(const std::string& given);
// "tuning.table" beside "tuning.sqlite", "job.store.table" beside "job.store".
std::string table_path(const std::string& store);

class TuningStore {
 public:
  // Throws DatabaseError. To write it: makes a missing file and takes in the entries that only the table beside it has,
  // as where a table is kept under version control and the store is not. To read it: a store that is missing or empty
  // has what its table has.
  TuningStore(const std::string& path, StoreUse use);

  const std::string& path() const { return path_; }
  // Throws DatabaseError if nothing can be stored. To be asked before minutes of measuring: a store that is read-only
  // may still be opened to be written, and is good enough where nothing is missing.
  void require_writable() const;
  // In the order of their keys, without trials.
  std::vector<TunedEntry> entries() const;
  std::optional<TunedEntry> find(const TuningKey& key) const;
  std::optional<TunedEntry> find(std::int64_t id) const;  // with its trials
  TuningEntries table() const;

  // Each replaces the entry of the same key, all or none of them. The table follows.
  void put(const std::vector<TunedEntry>& entries);
  // Removes entries by their ids.
  void remove(const std::vector<std::int64_t>& ids);

 private:
  void insert(const TunedEntry& entry);
  // Within a transaction: of several writers the last one to come finds all entries.
  void write_table();

  std::string path_;                    // links are followed: a store has one table
  std::unique_ptr<Database> database_;  // null: there is no file
  std::vector<TunedEntry> of_table_;    // where there is none, with the ids that they would get
};

}  // namespace octet::tool
