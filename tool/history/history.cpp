#include "tool/history/history.hpp"

#include "tool/history/state_database.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/json_rows.hpp"
#include "tool/results/provenance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace octet::tool {
namespace {

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

constexpr StateKind kHistory{
    .what = "a history of octet",
    .file = "history.sqlite",
    .application = 0x6f637465,  // "octe"
    .schema = 1,
    .tables = kTables,
    .write_ahead_log = true,
    .way_out = "OCTET_HISTORY=FILE names another place, OCTET_HISTORY=off turns it off"};

// A file with such a name is given as ./off.
bool turns_it_off(std::string_view given) {
  constexpr std::array<std::string_view, 5> kOff{"", "off", "none", "no", "0"};
  return std::any_of(kOff.begin(), kOff.end(),
                     [&](std::string_view off) { return same_name(off, given); });
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
  return state_path(kHistory);
}

std::string history_place() {
  try {
    const auto path = history_path();
    return path ? below_home(*path) : "off";
  } catch (const DatabaseError& error) {
    return fmt::format("off ({})", error.what());
  }
}

std::unique_ptr<Database> open_history(const std::string& path, bool create) {
  auto database = open_state(kHistory, path, create);
  // Enough if the process is killed; a power cut may lose the last rows, but never corrupts the
  // file.
  if (database) database->execute("PRAGMA synchronous = NORMAL");
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
